// The Fleet view stays open, against a hundred nodes: three minutes here, an hour in the long tier (SHOAL_FLEET_MINUTES
// says otherwise). Its memory stays flat, and its main thread idle.
import type { CDPSession, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { TestBrowser } from './harness/browser.ts';
import { startRelay } from './harness/relay.ts';
import { ScriptedFleet } from './harness/scripted-fleet.ts';
import { until } from './harness/wait.ts';

const MINUTES = Number(process.env.SHOAL_FLEET_MINUTES ?? (process.env.SHOAL_LONG === '1' ? 60 : 3));
if (!(MINUTES >= 3)) throw new Error(`${MINUTES} minutes show no growth: SHOAL_FLEET_MINUTES is 3 at least`);
const NODES = 100;
const MOST_BUSY = 0.05;
/** After its first minute. History fills for an hour: 720 points of 27 numbers. */
const MOST_GROWTH_BYTES = 1_000_000;
/** Of the DOM's nodes, and of listeners: requests have more or fewer lines. */
const MOST_MORE = 300;
const ROUND_MS = 30_000;

interface Reading {
  /** Seconds that the main thread worked, by its own clock and by the wall's. */
  readonly thread: number;
  readonly wall: number;
  readonly heapBytes: number;
  readonly domNodes: number;
  readonly listeners: number;
}

/**
 * Reads the page's counters, by two clocks: a thread that waits for its turn beside other tests on the same cores works no
 * more for it.
 */
class Gauges {
  private readonly thread: CDPSession;
  private readonly wall: CDPSession;

  private constructor(thread: CDPSession, wall: CDPSession) {
    this.thread = thread;
    this.wall = wall;
  }

  static async open(page: Page): Promise<Gauges> {
    const context = page.context();
    const [thread, wall] = [await context.newCDPSession(page), await context.newCDPSession(page)];
    await thread.send('Performance.enable', { timeDomain: 'threadTicks' });
    await wall.send('Performance.enable', { timeDomain: 'timeTicks' });
    return new Gauges(thread, wall);
  }

  async read(): Promise<Reading> {
    const [thread, wall] = [await counters(this.thread), await counters(this.wall)];
    return {
      thread: thread.get('TaskDuration')!,
      wall: wall.get('TaskDuration')!,
      heapBytes: thread.get('JSHeapUsedSize')!,
      domNodes: thread.get('Nodes')!,
      listeners: thread.get('JSEventListeners')!,
    };
  }

  async collectGarbage(): Promise<void> {
    // Twice: what a finaliser frees, the second one collects.
    for (let turn = 0; turn < 2; turn++) await this.thread.send('HeapProfiler.collectGarbage');
  }
}

async function counters(session: CDPSession): Promise<ReadonlyMap<string, number>> {
  const { metrics } = await session.send('Performance.getMetrics');
  return new Map(metrics.map(({ name, value }) => [name, value]));
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

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
      const gauges = await Gauges.open(page);
      await page.waitForTimeout(ROUND_MS);
      const busy: Record<'thread' | 'wall', number[]> = { thread: [], wall: [] };
      const readings: Reading[] = [];
      for (let round = 0; round < MINUTES * (60_000 / ROUND_MS) - 1; round++) {
        // What a collection costs is none of the page's work.
        await gauges.collectGarbage();
        const [before, from] = [await gauges.read(), performance.now()];
        readings.push(before);
        await page.waitForTimeout(ROUND_MS);
        const [after, seconds] = [await gauges.read(), (performance.now() - from) / 1_000];
        for (const clock of ['thread', 'wall'] as const) busy[clock].push((after[clock] - before[clock]) / seconds);
      }
      await gauges.collectGarbage();
      readings.push(await gauges.read());
      const [first, last] = [readings[1]!, readings.at(-1)!];
      const told = {
        busy: { thread: mean(busy.thread), wall: mean(busy.wall), most: Math.max(...busy.thread) },
        heapKiB: readings.map(({ heapBytes }) => Math.round(heapBytes / 1024)),
        domNodes: readings.map(({ domNodes }) => domNodes),
        listeners: readings.map(({ listeners }) => listeners),
      };
      console.log(`fleet view: ${JSON.stringify(told)}`);
      expect(await rows.count()).toBe(1 + NODES);
      // It had something to show.
      expect(fleet.served).toBeGreaterThan(10 * MINUTES);
      expect(told.busy.thread).toBeGreaterThan(0);
      expect(told.busy.thread).toBeLessThanOrEqual(MOST_BUSY);
      // The least of some: what is on its way when a reading comes is no growth.
      const least = (some: readonly Reading[]) => Math.min(...some.map(({ heapBytes }) => heapBytes));
      expect(least(readings.slice(-3)) - least(readings.slice(0, 3))).toBeLessThan(MOST_GROWTH_BYTES);
      expect(last.domNodes - first.domNodes).toBeLessThan(MOST_MORE);
      expect(last.listeners - first.listeners).toBeLessThan(MOST_MORE);
      expect(browser.errors).toEqual([]);
    } finally {
      await browser.close();
      await fleet.close();
      await relay.command.stop();
    }
  },
  (MINUTES + 3) * 60_000,
);
