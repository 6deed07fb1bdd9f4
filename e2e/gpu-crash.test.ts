// The GPU process of the only node's browser crashes under running streams: the page comes back by itself, and they go on.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { GenerateRequest } from '../src/contract/gen/sglang_scheduler_pb.ts';
import { TestBrowser } from './harness/browser.ts';
import { PROMPT_IDS } from './harness/golden.ts';
import { metric, startRelay, type TestRelay } from './harness/relay.ts';
import { collect, type Generated, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until, within } from './harness/wait.ts';

vi.setConfig({ testTimeout: 120_000 });

/** Of the relay, as it is where nobody says otherwise. */
const REJOIN_WAIT_MS = 30_000;
/** Told of each stream before the crash: so many are computed anew. */
const TOLD = 20;

describe.skipIf(process.env.SHOAL_LONG !== '1')('the GPU process crashes under the only node', () => {
  let relay: TestRelay;
  let browser: TestBrowser;

  beforeAll(async () => {
    relay = await startRelay();
    browser = await TestBrowser.launch();
    await browser.serve(relay.webUrl);
  });

  afterAll(async () => {
    await browser?.close();
    await relay?.command.stop();
  });

  async function crash(): Promise<void> {
    const session = await browser.browser.newBrowserCDPSession();
    // It may answer, or not.
    void session.send('Browser.crashGpuProcess').catch(() => {});
  }

  test('its streams go on within the rejoin wait, each token once, with the ids that they have in calm', async () => {
    const client = schedulerClient(relay.grpc);
    const ask = (request: GenerateRequest, onChunk = () => {}) =>
      collect(client, { ...request, requestId: `crash-${performance.now()}` }, { onChunk });
    const all = { maxNewTokens: 400, ignoreEos: true };
    const requests = [
      greedyRequest(PROMPT_IDS, all),
      greedyRequest(PROMPT_IDS.slice(0, 3), { ...all, temperature: 1, n: 3, customParams: { seed: 1234 } }),
      greedyRequest(PROMPT_IDS.slice(2), { ...all, frequencyPenalty: 0.4, repetitionPenalty: 1.2 }),
    ];
    const samples = [1, 3, 1];
    const outputs = ({ completes }: Generated) => completes.map(({ outputIds }) => outputIds);
    const calm = await Promise.all(requests.map((request) => ask(request)));
    expect(await metric(relay.webUrl, 'shoal:failovers_total')).toBe(0);

    const chunks = requests.map(() => 0);
    let longestPauseMs = 0;
    let lastAt = performance.now();
    const running = requests.map((request, i) =>
      ask(request, () => {
        longestPauseMs = Math.max(longestPauseMs, performance.now() - lastAt);
        lastAt = performance.now();
        chunks[i]!++;
      }),
    );
    const answers = Promise.all(running);
    answers.catch(() => {});
    await until('all streams run', 20_000, () => chunks.every((count, i) => count >= TOLD * samples[i]!));
    const crashedAt = performance.now();
    await crash();
    const crashed = await within('the ends of the streams', REJOIN_WAIT_MS + 60_000, answers);

    for (const [i, generated] of crashed.entries()) {
      expect(outputs(generated)).toEqual(outputs(calm[i]!));
      for (let index = 0; index < samples[i]!; index++) {
        expect(idsOf(generated, index), `sample ${index} of ${i}`).toEqual(generated.completes[index]!.outputIds);
        expect(generated.completes[index]!.completionTokens).toBe(400);
      }
    }
    console.log(
      `GPU crash: no token for ${longestPauseMs.toFixed(0)} ms, ends ${(performance.now() - crashedAt).toFixed(0)} ms after`,
    );
    expect(await metric(relay.webUrl, 'shoal:failovers_total')).toBe(requests.length);
    expect(longestPauseMs).toBeLessThan(REJOIN_WAIT_MS);
    expect((await client.getLoads({})).loads).toHaveLength(1);
  });
});
