import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import { Finished_Reason } from '../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { defaultOptions } from './options.ts';
import { benchPerTest, idsOf, PROMPT, running } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate } = SglangScheduler.method;
const start = benchPerTest();

test('a killed node: its stream ends with `error` and UNAVAILABLE when the lease is over', async () => {
  const on = await start({ leaseMs: 600, heartbeatMs: 100, rejoinWaitMs: 0 });
  const node = await on.node({ stepMs: 5 });
  const { whole } = await running(on, 400);
  const killedAt = performance.now();
  node.kill();
  const { messages, error } = await whole;
  const took = performance.now() - killedAt;
  expect(error?.code).toBe(status.UNAVAILABLE);
  expect(messages.at(-1)?.response).toMatchObject({ case: 'error', value: { httpStatusCode: '503' } });
  expect(took).toBeGreaterThan(400);
  expect(took).toBeLessThan(3_000);
});

test('a node that says Detach: UNAVAILABLE at once, and trailers only where nothing went out', async () => {
  const on = await start({ rejoinWaitMs: 0 });
  const node = await on.node({ stepMs: 5, maxRunning: 1 });
  const { whole } = await running(on, 400);
  const silent = await on.node({ manual: true });
  const early = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 5 }, { dataParallelRank: 1 })));
  await silent.until(() => silent.jobs.length === 1);
  // The node acknowledges the command: it has begun.
  await silent.report(true);
  const at = performance.now();
  await silent.detach();
  expect(await early).toMatchObject({ messages: [], error: { code: status.UNAVAILABLE } });
  await node.detach();
  expect((await whole).error?.code).toBe(status.UNAVAILABLE);
  expect(performance.now() - at).toBeLessThan(2_000);
});

test('another node goes on where a lost one stopped', async () => {
  const on = await start();
  const first = await on.node({ stepMs: 2 });
  const { whole } = await running(on, 120, { returnLogprob: true });
  await first.until(() => first.outputLength(first.jobs[0]?.jobId ?? 0n) >= 30);
  const second = await on.node({ stepMs: 1 });
  await first.detach();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(idsOf(messages)).toEqual(outputOf(PROMPT, 120));
  const resumed = second.jobs[0];
  expect(resumed?.samples[0]?.emittedIds.length).toBeGreaterThan(0);
  expect(resumed?.sampling?.seed).toBe(first.jobs[0]?.sampling?.seed);
  const last = messages.at(-1)?.response;
  if (last?.case !== 'complete') throw new Error('no complete');
  expect(last.value.outputIds).toEqual(outputOf(PROMPT, 120));
  expect(last.value.outputLogprobs?.tokenLogprobs).toHaveLength(120);
});

test('a rejoin wait over, with no other node: UNAVAILABLE, and the client has what there was', async () => {
  expect(defaultOptions.rejoinWaitMs).toBe(30_000);
  const on = await start({ rejoinWaitMs: 500 });
  const node = await on.node({ stepMs: 5 });
  const { whole } = await running(on, 400);
  await node.detach();
  const at = performance.now();
  const { messages, error } = await whole;
  expect(performance.now() - at).toBeGreaterThan(400);
  expect(error?.code).toBe(status.UNAVAILABLE);
  expect(messages.at(-1)?.response).toMatchObject({ case: 'error', value: { httpStatusCode: '503' } });
  const ids = idsOf(messages);
  expect(ids).toEqual(outputOf(PROMPT, ids.length));
});

test('within the rejoin wait, a node that comes later goes on', async () => {
  const on = await start();
  const first = await on.node({ stepMs: 5 });
  const { whole } = await running(on, 60);
  await first.detach();
  await on.node();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(idsOf(messages)).toEqual(outputOf(PROMPT, 60));
});

test('a node that can not go on with a sample: another takes it, or its status is told', async () => {
  const on = await start();
  const failing = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 10 })));
  await failing.until(() => failing.jobs.length === 1);
  const working = await on.node();
  const jobId = failing.jobs[0]?.jobId ?? 0n;
  await failing.tell({ jobId, event: { case: 'failed', value: { code: status.INTERNAL, message: 'NaN' } } });
  expect(idsOf((await whole).messages)).toEqual(outputOf(PROMPT, 10));
  await working.detach();
  const alone = collect(on.client.stream(generate, requestOf(PROMPT)));
  await failing.until(() => failing.jobs.length === 2);
  const failed = { code: status.RESOURCE_EXHAUSTED, message: 'no blocks' };
  await failing.tell({ jobId: failing.jobs[1]?.jobId ?? 0n, event: { case: 'failed', value: failed } });
  expect((await alone).error).toMatchObject({ code: status.RESOURCE_EXHAUSTED, details: 'no blocks' });
});

test('a node that lost its device: its request waits for it, and goes on there once it has another', async () => {
  const on = await start();
  const broken = await on.node({ manual: true, nodeId: 'a-node-with-a-gpu' });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 10 })));
  await broken.until(() => broken.jobs.length === 1);
  const jobId = broken.jobs[0]?.jobId ?? 0n;
  const failed = { code: status.UNAVAILABLE, message: 'the device is lost' };
  await broken.tell(
    { jobId, event: { case: 'tokens', value: { tokenIds: outputOf(PROMPT, 3) } } },
    { jobId, event: { case: 'failed', value: failed } },
  );
  await broken.detach();
  const mended = await on.node({ nodeId: 'a-node-with-a-gpu' });
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(idsOf(messages)).toEqual(outputOf(PROMPT, 10));
  expect(mended.jobs[0]?.samples[0]?.emittedIds).toEqual(outputOf(PROMPT, 3));
});

test('two nodes that call a request wrong are believed: no third gets it', async () => {
  const on = await start();
  const nodes = [await on.node({ manual: true }), await on.node({ manual: true }), await on.node({ manual: true })];
  const whole = collect(on.client.stream(generate, requestOf(PROMPT)));
  for (const node of nodes.slice(0, 2)) {
    await node.until(() => node.jobs.length === 1);
    const value = { code: status.INVALID_ARGUMENT, message: 'regex is refused' };
    await node.tell({ jobId: node.jobs[0]?.jobId ?? 0n, event: { case: 'failed', value } });
  }
  const { messages, error } = await whole;
  expect(messages).toEqual([]);
  expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, details: 'regex is refused' });
  expect(nodes[2]?.jobs).toEqual([]);
});

test('a node that stops making tokens loses the job to another', async () => {
  const on = await start({ tokenStallMs: 1_000, heartbeatMs: 50 });
  const stuck = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 20 })));
  await stuck.until(() => stuck.jobs.length === 1);
  const [first] = outputOf(PROMPT, 1) as [number];
  await stuck.tell({ jobId: stuck.jobs[0]?.jobId ?? 0n, event: { case: 'tokens', value: { tokenIds: [first] } } });
  await on.node();
  expect(idsOf((await whole).messages)).toEqual(outputOf(PROMPT, 20));
});

test('a sample that was whole when its node was lost needs no other', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 3 })));
  await node.until(() => node.jobs.length === 1);
  const jobId = node.jobs[0]?.jobId ?? 0n;
  await node.tell({ jobId, event: { case: 'tokens', value: { tokenIds: [9, 8, 7] } } });
  await node.detach();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(messages.at(-1)?.response).toMatchObject({
    case: 'complete',
    value: { finishReason: 'length', outputIds: [9, 8, 7] },
  });
});

test('n = 2: a sample that waits inside the node for longer than a stall fails nothing', async () => {
  const on = await start({ tokenStallMs: 300, heartbeatMs: 50 });
  const node = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 40, n: 2 })));
  await node.until(() => node.jobs.length === 1);
  const jobId = node.jobs[0]?.jobId ?? 0n;
  const make = (index: number) =>
    node.tell(
      { jobId, index, event: { case: 'tokens', value: { tokenIds: outputOf(PROMPT, 40, index) } } },
      { jobId, index, event: { case: 'finished', value: { reason: Finished_Reason.LENGTH, completionTokens: 40 } } },
    );
  await make(0);
  // Heartbeats go on: sample 1 waits its turn inside the node.
  await new Promise((resolve) => setTimeout(resolve, 700));
  await make(1);
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  for (const index of [0, 1]) expect(idsOf(messages, index)).toEqual(outputOf(PROMPT, 40, index));
  expect(node.commandsOf('abort')).toEqual([]);
});

test('n = 2: one sample that stalls gives the job to another node, whatever the other sample does', async () => {
  const on = await start({ tokenStallMs: 800, heartbeatMs: 50 });
  const stuck = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 50, n: 2 })));
  await stuck.until(() => stuck.jobs.length === 1);
  const jobId = stuck.jobs[0]?.jobId ?? 0n;
  const outputs = [outputOf(PROMPT, 50, 0), outputOf(PROMPT, 50, 1)];
  const tell = (index: number, offset: number) =>
    stuck.tell({
      jobId,
      index,
      event: { case: 'tokens', value: { offset, tokenIds: [outputs[index]?.[offset] as number] } },
    });
  await tell(1, 0);
  await on.node();
  for (let offset = 0; offset < 49 && stuck.commandsOf('abort').length === 0; offset++) {
    await tell(0, offset);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await stuck.until(() => stuck.commandsOf('abort').length === 1);
  const { messages } = await whole;
  expect([idsOf(messages, 0), idsOf(messages, 1)]).toEqual(outputs);
});

test('a smaller node goes on up to what it holds, and no further', async () => {
  const on = await start();
  const large = await on.node({ stepMs: 2 });
  const { whole } = await running(on, 200);
  await large.until(() => large.outputLength(large.jobs[0]?.jobId ?? 0n) >= 20);
  const small = await on.node({ contextLength: 105 });
  await large.detach();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(small.jobs[0]?.sampling?.maxNewTokens).toBe(100);
  expect(idsOf(messages)).toEqual(outputOf(PROMPT, 100));
  expect(messages.at(-1)?.response).toMatchObject({ case: 'complete', value: { finishReason: 'length' } });
});

test.each([
  { contextLength: 25 },
  { poolTokens: 25 },
  // Not even the prompt.
  { poolTokens: 4 },
])('where output so far fills what the nodes left have (%j), that is its length', async (size) => {
  const on = await start();
  const large = await on.node({ stepMs: 2 });
  const { whole } = await running(on, 200);
  await large.until(() => large.outputLength(large.jobs[0]?.jobId ?? 0n) >= 20);
  const small = await on.node(size);
  await large.detach();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(small.jobs).toEqual([]);
  expect(small.reportError).toBeUndefined();
  const ids = idsOf(messages);
  expect(ids.length).toBeGreaterThanOrEqual(20);
  expect(ids).toEqual(outputOf(PROMPT, ids.length));
  expect(messages.at(-1)?.response).toMatchObject({
    case: 'complete',
    value: { finishReason: 'length', outputIds: ids },
  });
});

test('n = 2: a sample that came less far goes on at a node that can not hold the other', async () => {
  const on = await start();
  const large = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 40, n: 2 })));
  await large.until(() => large.jobs.length === 1);
  const jobId = large.jobs[0]?.jobId ?? 0n;
  const tell = (index: number, tokenIds: number[]) =>
    large.tell({ jobId, index, event: { case: 'tokens', value: { tokenIds } } });
  await tell(0, outputOf(PROMPT, 30, 0));
  await tell(1, outputOf(PROMPT, 3, 1));
  const small = await on.node({ contextLength: 25 });
  await large.detach();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(small.jobs[0]?.samples.map(({ index }) => index)).toEqual([1]);
  expect([idsOf(messages, 0), idsOf(messages, 1)]).toEqual([outputOf(PROMPT, 30, 0), outputOf(PROMPT, 20, 1)]);
});
