// A computer that sleeps for longer than the lease: its page attaches anew by itself.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestBrowser, untilState } from './harness/browser.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { startRelay, type TestRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until } from './harness/wait.ts';

const LEASE = ['--lease', '2s', '--heartbeat', '500ms'];
let relay: TestRelay;
let browser: TestBrowser;

beforeAll(async () => {
  relay = await startRelay(LEASE);
  browser = await TestBrowser.launch();
});

afterAll(async () => {
  await browser?.close();
  await relay?.command.stop();
});

const nodes = async () => (await schedulerClient(relay.grpc).getLoads({})).loads.length;

/** Processes of the browser, but the first one, through which the test speaks to it. */
async function processes(): Promise<number[]> {
  const session = await browser.browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  return processInfo.filter(({ type }) => type !== 'browser').map(({ id }) => id);
}

test.runIf(process.env.SHOAL_LONG === '1' && process.platform !== 'win32')(
  'processes that stand still for longer than the lease: the request goes on when they wake, with the ids that it has in calm',
  { timeout: 120_000 },
  async () => {
    const page = await browser.serve(relay.webUrl);
    await page.evaluate('window.notReloaded = true');
    const asleep = await processes();
    expect(asleep.length).toBeGreaterThan(1);
    let chunks = 0;
    const answer = collect(schedulerClient(relay.grpc), greedyRequest(PROMPT_IDS, { maxNewTokens: 190 }), {
      onChunk: () => chunks++,
    });
    answer.catch(() => {});
    await until('the request runs', 20_000, () => chunks > 5);
    for (const pid of asleep) process.kill(pid, 'SIGSTOP');
    try {
      await until('the relay gives the node up', 10_000, async () => (await nodes()) === 0);
    } finally {
      for (const pid of asleep) process.kill(pid, 'SIGCONT');
    }
    const wokeAt = performance.now();
    await until('the page is a node again', 15_000, async () => (await nodes()) === 1);
    console.log(`sleep: a node again ${(performance.now() - wokeAt).toFixed(0)} ms after waking`);
    await untilState(page, 'serving', 5_000);
    expect(idsOf(await answer)).toEqual(OUTPUT_IDS.slice(0, 190));
    expect(await page.evaluate('window.notReloaded')).toBe(true);
    await page.context().close();
    await until('the page has gone', 10_000, async () => (await nodes()) === 0);
  },
);

test.runIf(process.env.SHOAL_LONG === '1')(
  'a page that is frozen for longer than the lease serves after it, without a reload',
  async () => {
    const page = await browser.serve(relay.webUrl);
    await page.evaluate('window.notReloaded = true');
    const session = await page.context().newCDPSession(page);
    await session.send('Page.setWebLifecycleState', { state: 'frozen' });
    // A worker that is not frozen with its window serves on, and keeps its session.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    await session.send('Page.setWebLifecycleState', { state: 'active' });
    await until('the page is a node', 15_000, async () => (await nodes()) === 1);
    await untilState(page, 'serving', 5_000);
    const generated = await collect(schedulerClient(relay.grpc), greedyRequest(PROMPT_IDS, { maxNewTokens: 12 }));
    expect(idsOf(generated)).toEqual(OUTPUT_IDS.slice(0, 12));
    expect(await page.evaluate('window.notReloaded')).toBe(true);
  },
);
