import { KernelTimes } from './kernel-times.tsx';
import { ModelsPanel } from './models/models-panel.tsx';
import { joined } from './node.ts';
import { AboutCard } from './node-panels/about-card.tsx';
import { AdapterCard } from './node-panels/adapter-card.tsx';
import { BackgroundCard } from './node-panels/background-card.tsx';
import { CountersCard } from './node-panels/counters-card.tsx';
import { LimitsCard } from './node-panels/limits-card.tsx';
import { LogCard } from './node-panels/log-card.tsx';
import { StatusCard } from './node-panels/status-card.tsx';

/** This page's own node: join and leave, its limits, its state in words, its counters. */
export function NodeView() {
  return (
    <>
      <div class="view-head">
        <div>
          <h1>Node</h1>
          <p>Lend this browser's GPU to serve a language model.</p>
        </div>
      </div>
      <div class="columns">
        <div class="stack">
          <StatusCard />
          <CountersCard />
          <LimitsCard />
          <BackgroundCard />
        </div>
        <div class="stack">
          {!joined.value && <AboutCard />}
          <AdapterCard />
          <ModelsPanel />
          <LogCard />
          {joined.value && <KernelTimes />}
        </div>
      </div>
    </>
  );
}
