import { expect, test, vi } from 'vitest';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { openModel } from '../model/open-model.ts';
import { benchPerTest, PROMPT, running } from '../testing/bench-per-test.ts';
import { collect } from '../testing/grpc-client.ts';
import { MODEL_DIR, type RelayBench, requestOf } from '../testing/relay-bench.ts';
import { outputOf } from '../testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const bench = benchPerTest();

/** A relay that audits every sample, of a model that begins no text by itself: there are no canaries. */
async function start() {
  return bench({ auditShare: 1, model: { ...(await openModel(MODEL_DIR)), bosTokenId: undefined } });
}

async function audited(on: RelayBench, outcome: string): Promise<number> {
  const text = await (await fetch(`${on.webUrl}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith('shoal:audited_samples_total{') && one.includes(outcome));
  return Number(line?.split(' ').at(-1) ?? 0);
}

const ask = (on: RelayBench, maxNewTokens = 8, rest: Parameters<typeof requestOf>[2] = {}) =>
  collect(on.client.stream(SglangScheduler.method.generate, requestOf(PROMPT, { maxNewTokens }, rest)));

test('an audit is a request of the output’s 20 best logprobs, at another node', async () => {
  const on = await start();
  const maker = await on.node();
  const other = await on.node({ manual: true });
  await ask(on, 8, { dataParallelRank: 0 });
  await other.until(() => other.jobs.length === 1);
  const [job] = other.jobs;
  expect(job?.inputIds).toEqual([...PROMPT, ...outputOf(PROMPT, 8)]);
  expect(job).toMatchObject({ logprobStart: PROMPT.length, topLogprobs: 20, sampling: { maxNewTokens: 0 } });
  expect(maker.jobs.length).toBe(1);
});

test('none runs at the node that made the sample', async () => {
  const on = await start();
  const alone = await on.node();
  await ask(on);
  expect(alone.jobs.length).toBe(1);
  expect(await audited(on, 'dropped')).toBe(1);
});

test('it leaves its node as soon as a request waits, and is dropped', async () => {
  const on = await start();
  await on.node();
  const other = await on.node({ manual: true, maxRunning: 2 });
  await ask(on, 8, { dataParallelRank: 0 });
  await other.until(() => other.jobs.length === 1);
  // The room beside it is taken, and the next waits.
  for (const wanted of [2, 3]) {
    void ask(on, 8, { dataParallelRank: 1 });
    await other.until(() => other.jobs.length === wanted);
  }
  const [audit] = other.jobs;
  expect(other.commandsOf('abort').map(({ jobId }) => jobId)).toEqual([audit?.jobId]);
  expect(await audited(on, 'dropped')).toBe(1);
});

test('one whose node is lost goes nowhere else', async () => {
  const on = await start();
  const maker = await on.node();
  const other = await on.node({ manual: true });
  await ask(on, 8, { dataParallelRank: 0 });
  await other.until(() => other.jobs.length === 1);
  await other.detach();
  expect(await audited(on, 'dropped')).toBe(1);
  expect(maker.jobs.length).toBe(1);
});

test('what several nodes made is not audited', async () => {
  const on = await start();
  const first = await on.node({ stepMs: 5 });
  const { whole } = await running(on, 30);
  const second = await on.node();
  await on.node({ manual: true });
  await first.detach();
  expect((await whole).error).toBeUndefined();
  await second.until(() => second.jobs.length === 1);
  for (const outcome of ['passes', 'fails', 'open', 'unfit', 'dropped']) expect(await audited(on, outcome)).toBe(0);
});
