// What happens to simulated nodes in chaos.test.ts happens to two tabs of a real browser.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { openModel } from '../src/relay/model/open-model.ts';
import { TestBrowser } from './harness/browser.ts';
import { chaos } from './harness/chaos.ts';
import { MortalRelay } from './harness/mortal-relay.ts';
import { TabNode } from './harness/tab-node.ts';

vi.setConfig({ testTimeout: 600_000 });

const LEASE_MS = 3_000;

describe.skipIf(process.env.SHOAL_LONG !== '1')('two tabs', () => {
  let relay: MortalRelay;
  let browser: TestBrowser;
  const tabs: TabNode[] = [];

  beforeAll(async () => {
    relay = await MortalRelay.start(['--lease', `${LEASE_MS}ms`, '--heartbeat', '500ms']);
    browser = await TestBrowser.launch();
    for (let i = 0; i < 2; i++) tabs.push(await TabNode.open(browser, relay.webUrl));
  });

  afterAll(async () => {
    for (const tab of tabs) await tab.close();
    await browser?.close();
    await relay?.close();
  });

  test('whatever happens to them and their relay, each stream is whole, and as it is in calm', async () => {
    const seed = Number(process.env.SHOAL_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const { count, hits } = await chaos({
      load: { relay, model: await openModel('models/stories260K'), parallel: 12 },
      nodes: tabs,
      leaseMs: LEASE_MS,
      seed,
      requests: 40,
      mostTokens: 40,
      chaosMs: 130_000,
      leastServed: 300,
      restartsMs: 18_000,
      calmMs: 300,
      spared: 0,
    });
    console.log(`chaos in tabs, seed ${seed}:`, count, hits);
    expect(count.served).toBeGreaterThanOrEqual(300);
    expect(count.cutByRelay).toBeGreaterThan(0);
    for (const times of Object.values(hits)) expect(times).toBeGreaterThanOrEqual(5);
  });
});
