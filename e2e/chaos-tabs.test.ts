// What happens to simulated nodes in chaos.test.ts happens to two tabs of a real browser.
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { openModel } from '../src/relay/model/open-model.ts';
import { TestBrowser } from './harness/browser.ts';
import { chaos } from './harness/chaos.ts';
import { MortalRelay } from './harness/mortal-relay.ts';
import { TabNode } from './harness/tab-node.ts';

vi.setConfig({ testTimeout: 600_000 });

const LONG = process.env.SHOAL_LONG === '1';
/** In the short tier it mostly waits: other lanes compute beside it. */
const TIER = LONG
  ? {
      requests: 40,
      mostTokens: 40,
      chaosMs: 130_000,
      leastServed: 300,
      leastHits: 5,
      pauseMs: 0,
      restartsMs: 18_000,
      calmMs: 300,
    }
  : {
      requests: 12,
      mostTokens: 160,
      chaosMs: 40_000,
      leastServed: 15,
      leastHits: 1,
      pauseMs: 2_500,
      restartsMs: 16_000,
      calmMs: 500,
    };
const LEASE_MS = 3_000;
/** Both tabs may load at once, on a machine that computes for others too. */
const NO_NODE = ['--start-wait', '60s', '--rejoin-wait', '60s'];

let relay: MortalRelay;
let browser: TestBrowser;
const tabs: TabNode[] = [];

beforeAll(async () => {
  relay = await MortalRelay.start(['--lease', `${LEASE_MS}ms`, '--heartbeat', '500ms', ...NO_NODE]);
  browser = await TestBrowser.launch();
  for (let i = 0; i < 2; i++) tabs.push(await TabNode.open(browser, relay.webUrl));
});

afterAll(async () => {
  for (const tab of tabs) await tab.close();
  await browser?.close();
  await relay?.close();
});

test('whatever happens to two tabs and their relay, each stream is whole, and as it is in calm', async () => {
  const seed = Number(process.env.SHOAL_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const { count, hits } = await chaos({
    ...TIER,
    load: { relay, model: await openModel('models/stories260K'), parallel: LONG ? 12 : 2, told: 0 },
    nodes: tabs,
    leaseMs: LEASE_MS,
    seed,
    spared: 0,
  });
  console.log(`chaos in tabs, seed ${seed}:`, count, hits);
  expect(count.served).toBeGreaterThanOrEqual(TIER.leastServed);
  expect(count.cutByRelay).toBeGreaterThan(0);
  for (const times of Object.values(hits)) expect(times).toBeGreaterThanOrEqual(TIER.leastHits);
});
