import './fleet.css';
import { Code } from '@connectrpc/connect';
import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { SignIn } from '../sign-in.tsx';
import { signOut, viewerToken } from '../viewer-access.ts';
import { FleetStats } from './fleet-stats.tsx';
import type { FleetWatch } from './fleet-watch.ts';
import { age } from './format.ts';
import { HistoryTable } from './history-table.tsx';
import { nodeRows } from './node-rows.ts';
import { NodeTable } from './node-table.tsx';
import { RequestList } from './request-list.tsx';
import { held, watch, watchWhileSeen } from './watch.ts';

/** All nodes and requests of the relay: what it counts now, what it counted over the last hour. */
export function FleetView() {
  useEffect(watchWhileSeen, []);
  return (
    <section aria-labelledby="fleet-title">
      <div class="view-head">
        <div>
          <h1 id="fleet-title">Fleet</h1>
          <Subtitle />
        </div>
        <Controls />
      </div>
      <Content />
    </section>
  );
}

function Subtitle() {
  const { value } = watch.history;
  return value ? (
    <p>
      {value.model}, shoal {value.version}, up for {age(value.nowMs)}
    </p>
  ) : null;
}

const STATE_BADGES = {
  loading: { word: 'asking', tone: 'busy' },
  live: { word: 'live', tone: 'good' },
  paused: { word: 'paused', tone: 'warn' },
  unreachable: { word: 'no answer', tone: 'bad' },
  refused: { word: 'signed out', tone: undefined },
} as const;

function Controls() {
  const { name } = watch.state.value;
  const { word, tone } = STATE_BADGES[name];
  return (
    <div class="buttons fleet-controls">
      <span class="badge" role="status" data-tone={tone}>
        {word}
      </span>
      {name !== 'refused' && (
        <button
          type="button"
          class="small"
          onClick={() => {
            held.value = !held.value;
          }}
        >
          {held.value ? 'Resume' : 'Pause'}
        </button>
      )}
      {viewerToken.value !== undefined && (
        <button
          type="button"
          class="small"
          onClick={() => {
            // Who comes next is asked for a token at once.
            held.value = false;
            signOut();
          }}
        >
          Sign out
        </button>
      )}
    </div>
  );
}

function Content() {
  const state = watch.state.value;
  if (state.name === 'refused') return <Refused {...state} />;
  const known = watch.loads.value !== undefined;
  if (state.name === 'unreachable') {
    return (
      <div class="stack">
        <Unreachable why={state.why} known={known} />
        {known && <Fleet />}
      </div>
    );
  }
  if (!known) {
    return (
      <p class="empty" role="status">
        {state.name === 'paused' ? 'Paused before the relay told anything.' : 'Asking the relay…'}
      </p>
    );
  }
  return <Fleet />;
}

function Refused({ code, why }: { code: Code; why: string }) {
  const first = code === Code.Unauthenticated && viewerToken.value === undefined;
  return (
    <SignIn
      title="Sign in to see the fleet"
      whose="An operator's token shows everything; a client's shows the load of each node."
      problem={first ? undefined : why}
      onSignIn={() => watch.restart()}
    />
  );
}

function Unreachable({ why, known }: { why: string; known: boolean }) {
  const offline = !navigator.onLine;
  const what = offline ? 'This browser is offline.' : 'The relay does not answer.';
  if (known) {
    return (
      <p class="notice" role="alert" data-tone="bad">
        {what} Trying again; what is below was told before. {!offline && <span class="quiet">({why})</span>}
      </p>
    );
  }
  return (
    <div class="empty">
      <strong>{what}</strong>
      <span role="alert">{why}</span>
      <button type="button" onClick={() => watch.restart()}>
        Try again
      </button>
    </div>
  );
}

function Fleet() {
  const loads = watch.loads.value?.loads ?? [];
  const listed = watch.nodes.value;
  const rows = nodeRows(loads, listed);
  return (
    <div class="stack">
      <FleetStats watch={watch} rows={rows} />
      {watch.operator.value === false && (
        <p class="notice">
          This is what a client's token shows. History, nodes and requests are for operators: sign out, and in with an
          operator's token.
        </p>
      )}
      {watch.history.value && <History watch={watch} />}
      <section class="card" aria-labelledby="fleet-nodes">
        <h2 id="fleet-nodes">Nodes</h2>
        {rows.length === 0 ? (
          <div class="empty">
            <strong>No node serves.</strong>
            <span>
              Join with this browser's own: <a href="#node">Node</a>. Or open this page in another.
            </span>
          </div>
        ) : (
          <NodeTable rows={rows} model={watch.history.value?.model} listed={listed !== undefined} />
        )}
      </section>
      <RequestList watch={watch} />
    </div>
  );
}

const ChartGrid = signal<ComponentType<{ watch: FleetWatch }> | undefined>(undefined);
const chartProblem = signal<string | undefined>(undefined);

/** Charts come with a script of their own, once there is something to draw. */
function loadCharts(): void {
  if (ChartGrid.value) return;
  chartProblem.value = undefined;
  import('./chart-grid.tsx').then(
    (loaded) => {
      ChartGrid.value = loaded.ChartGrid;
    },
    (error: Error) => {
      chartProblem.value = error.message;
    },
  );
}

function History({ watch }: { watch: FleetWatch }) {
  const [asTable, setAsTable] = useState(false);
  void watch.revision.value;
  const some = watch.columns.length > 0;
  useEffect(() => {
    if (some && !asTable) loadCharts();
  }, [some, asTable]);
  const Grid = ChartGrid.value;
  return (
    <section class="card" aria-labelledby="fleet-history">
      <div class="card-head">
        <h2 id="fleet-history">The last hour</h2>
        {some && (
          <button type="button" class="small" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
            {asTable ? 'As charts' : 'As a table'}
          </button>
        )}
      </div>
      {!some && <p class="quiet small">The relay has counted nothing yet: its first point comes within 5 s.</p>}
      {some && asTable && <HistoryTable watch={watch} />}
      {some && !asTable && Grid && <Grid watch={watch} />}
      {some && !asTable && !Grid && (
        <p class="quiet small" role="status">
          {chartProblem.value === undefined ? 'Loading the charts…' : `The charts did not load: ${chartProblem.value}`}
        </p>
      )}
    </section>
  );
}
