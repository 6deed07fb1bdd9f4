// The Fleet view stays open, against a hundred nodes: three minutes here, an hour in the long tier (SHOAL_FLEET_MINUTES
// says otherwise). Its memory stays flat, and its main thread idle.
import type { CDPSession, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { TestBrowser } from './harness/browser.ts';
import { startRelay } from './harness/relay.ts';
import { ScriptedFleet } from './harness/scripted-fleet.ts';
import { until } from './harness/wait.ts';

const MINUTES = Number(process.env.SHOAL_FLEET_MINUTES ?? (process.env.SHOAL_LONG === '1' ? 60 : 3));
const NODES = 100;
const MOST_BUSY = 0.05;
/** After its first minute. History fills for an hour: 720 points of 27 numbers. */
const MOST_GROWTH_BYTES = 1_500_000;
const MOST_NODES_GROWTH = 500;

interface Reading {
  readonly at: number;
  /** Seconds that the main thread worked. */
  readonly busy: number;
  readonly heapBytes: number;
  readonly domNodes: number;
  readonly listeners: number;
}

async function read(session: CDPSession): Promise<Reading> {
  // Twice: what a finaliser frees, the second one collects.
  for (let turn = 0; turn < 2; turn++) await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  const of = (name: string) => metrics.find((metric) => metric.name === name)!.value;
  return {
    at: performance.now(),
    busy: of('TaskDuration'),
    heapBytes: of('JSHeapUsedSize'),
    domNodes: of('Nodes'),
    listeners: of('JSEventListeners'),
  };
}

/** What a reading's own collections cost is none of the page's work. */
async function busyFor(page: Page, session: CDPSession, ms: number): Promise<number> {
  const busy = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'TaskDuration')!.value;
  };
  const [before, from] = [await busy(), performance.now()];
  await page.waitForTimeout(ms);
  return ((await busy()) - before) / ((performance.now() - from) / 1_000);
}

test(
  `open for ${MINUTES} minutes against ${NODES} nodes: memory flat, main thread busy 5 % at most`,
  async () => {
    const relay = await startRelay();
    const fleet = await ScriptedFleet.open(relay, NODES, 200);
    const browser = await TestBrowser.launch();
    try {
      fleet.serve(relay, 4, 30);
      const page = await browser.open(`${relay.webUrl}/#fleet`);
      const rows = page.getByRole('region', { name: 'Table of nodes' }).getByRole('row');
      await until('all nodes are shown', 30_000, async () => (await rows.count()) === 1 + NODES);
      await page.locator('.chart canvas').nth(8).waitFor({ timeout: 30_000 });
      const session = await page.context().newCDPSession(page);
      // The thread's own time: beside other tests on the same cores it waits for its turn, and works no more for it.
      await session.send('Performance.enable', { timeDomain: 'threadTicks' });
      const settleMs = 30_000;
      await page.waitForTimeout(settleMs);
      const first = await read(session);
      const busy: number[] = [];
      const rounds = Math.max(1, Math.round((MINUTES * 60_000 - settleMs) / 30_000));
      for (let round = 0; round < rounds; round++) busy.push(await busyFor(page, session, 30_000));
      const last = await read(session);
      const mean = busy.reduce((sum, value) => sum + value, 0) / busy.length;
      const told = {
        minutes: (last.at - first.at) / 60_000,
        ...{ busy: mean, mostBusy: Math.max(...busy) },
        heap: [first.heapBytes, last.heapBytes],
        domNodes: [first.domNodes, last.domNodes],
        listeners: [first.listeners, last.listeners],
      };
      console.log(`fleet view: ${JSON.stringify(told)}`);
      expect(await rows.count()).toBe(1 + NODES);
      expect(mean).toBeGreaterThan(0);
      expect(mean).toBeLessThanOrEqual(MOST_BUSY);
      expect(last.heapBytes - first.heapBytes).toBeLessThan(MOST_GROWTH_BYTES);
      expect(last.domNodes - first.domNodes).toBeLessThan(MOST_NODES_GROWTH);
      expect(last.listeners - first.listeners).toBeLessThan(MOST_NODES_GROWTH);
      expect(browser.errors).toEqual([]);
    } finally {
      await browser.close();
      await fleet.close();
      await relay.command.stop();
    }
  },
  (MINUTES + 3) * 60_000,
);
