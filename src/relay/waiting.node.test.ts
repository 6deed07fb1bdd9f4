import { create } from '@bufbuild/protobuf';
import { Code, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import { type AttachRequest, Finished_Reason, SchedulePolicy } from '../contract/gen/node_relay_pb.ts';
import { GetLoadsRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { benchPerTest, idsOf, PROMPT, running } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate, getLoads } = SglangScheduler.method;
const start = benchPerTest();

test('no node within the start wait: UNAVAILABLE', async () => {
  const on = await start({ startWaitMs: 150 });
  const { messages, error } = await collect(on.client.stream(generate, requestOf(PROMPT)));
  expect(messages).toEqual([]);
  expect([error?.code, error?.details]).toEqual([status.UNAVAILABLE, 'No node is serving.']);
});

test('a pinned rank waits for that rank, also rank 0', async () => {
  const on = await start({ startWaitMs: 300 });
  const zero = await on.node();
  const one = await on.node();
  const to = (rank: number) =>
    collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 2 }, { dataParallelRank: rank })));
  await to(1);
  await to(1);
  await to(0);
  expect([zero.jobs.length, one.jobs.length]).toEqual([1, 2]);
  expect((await to(2)).error?.details).toBe('No node of data_parallel_rank 2 is serving.');
});

test('jobs go to the least loaded node, and wait in order where there is no room', async () => {
  const on = await start({ maxQueued: 2 });
  const nodes = [await on.node({ manual: true, maxRunning: 2 }), await on.node({ manual: true, maxRunning: 2 })];
  const streams = Array.from({ length: 6 }, () => on.client.stream(generate, requestOf(PROMPT)));
  for (const stream of streams) stream.on('error', () => {});
  await Promise.all(nodes.map((node) => node.until(() => node.jobs.length === 2)));
  const loads = () => on.client.unary(getLoads, create(GetLoadsRequestSchema));
  await expect.poll(async () => (await loads()).aggregate?.totalWaitingReqs, { timeout: 5_000 }).toBe(2);
  expect((await loads()).loads.map((load) => [load.numRunningReqs, load.numWaitingReqs])).toEqual([
    [2, 1],
    [2, 1],
  ]);
  const { error } = await collect(on.client.stream(generate, requestOf(PROMPT)));
  expect(error?.code).toBe(status.RESOURCE_EXHAUSTED);
  for (const stream of streams) stream.cancel();
  await expect.poll(async () => (await loads()).aggregate?.totalReqs, { timeout: 5_000 }).toBe(0);
});

test('a prompt that no pool can hold is RESOURCE_EXHAUSTED', async () => {
  const on = await start();
  await on.node({ poolTokens: 4 });
  const { error } = await collect(on.client.stream(generate, requestOf(PROMPT)));
  expect(error?.code).toBe(status.RESOURCE_EXHAUSTED);
});

test.each([
  [
    { contextLength: 4 },
    'tokenized.input_ids holds 5 tokens, and the longest context of the nodes that could hold them is 4.',
  ],
  [{ poolTokens: 4 }, 'tokenized.input_ids holds 5 tokens, and the largest KV pool of the nodes holds 4.'],
])('a prompt that no node can hold, %j: the limit at fault is named', async (size, message) => {
  const on = await start();
  const whole = collect(on.client.stream(generate, requestOf(PROMPT)));
  await on.node(size);
  expect((await whole).error).toMatchObject({ code: status.RESOURCE_EXHAUSTED, details: message });
});

test('each wait for room is bounded, that of a request whose node was lost too', async () => {
  const on = await start({ queueMs: 300, rejoinWaitMs: 10_000 });
  const full = await on.node({ manual: true, maxRunning: 1 });
  const holding = on.client.stream(generate, requestOf([1, 2]));
  holding.on('error', () => {});
  await full.until(() => full.jobs.length === 1);
  const at = performance.now();
  const early = await collect(on.client.stream(generate, requestOf(PROMPT)));
  expect([early.messages, early.error?.code]).toEqual([[], status.DEADLINE_EXCEEDED]);
  const lost = await on.node({ stepMs: 5 });
  const { whole } = await running(on, 400);
  await lost.detach();
  const { messages, error } = await whole;
  // An error would make the gateway generate it all again.
  expect(error).toBeUndefined();
  expect(messages.at(-1)?.response).toMatchObject({ case: 'complete', value: { finishReason: 'abort' } });
  expect(performance.now() - at).toBeLessThan(5_000);
  holding.cancel();
});

test('the policy goes to the nodes; by priority the highest waiting request is next, and nodes are told it', async () => {
  const on = await start({ schedulePolicy: 'priority' });
  const node = await on.node({ manual: true, maxRunning: 1 });
  expect(node.welcome?.schedulePolicy).toBe(SchedulePolicy.PRIORITY);
  const ask = (priority: number) => {
    const stream = on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 0, customParams: { priority } }));
    stream.on('error', () => {});
    return collect(stream);
  };
  const whole = [ask(0)];
  await node.until(() => node.jobs.length === 1);
  const waiting = async () =>
    (await on.client.unary(getLoads, create(GetLoadsRequestSchema))).aggregate?.totalWaitingReqs;
  for (const [at, priority] of [-1, 7, 2].entries()) {
    whole.push(ask(priority));
    await expect.poll(waiting, { timeout: 5_000 }).toBe(at + 1);
  }
  for (let done = 0; done < 4; done++) {
    await node.until(() => node.jobs.length === done + 1);
    const finished = { case: 'finished' as const, value: { reason: Finished_Reason.LENGTH } };
    await node.tell({ jobId: node.jobs[done]?.jobId ?? 0n, event: finished });
  }
  await Promise.all(whole);
  expect(node.jobs.map(({ priority }) => priority)).toEqual([0, 7, 2, -1]);
});

test('a priority is refused by name where the policy has none', async () => {
  const on = await start();
  const node = await on.node();
  expect(node.welcome?.schedulePolicy).toBe(SchedulePolicy.LPM);
  const { error } = await collect(on.client.stream(generate, requestOf(PROMPT, { customParams: { priority: 1 } })));
  expect(error).toMatchObject({
    code: status.UNIMPLEMENTED,
    details: 'custom_params.priority is served only by a relay that runs with --schedule-policy priority.',
  });
});

/** Of another build than the relay's page. */
const OTHER = { packageVersion: '0.0.0-test', pageHash: 'f'.repeat(64) } as AttachRequest['build'] & object;

test('a node of another build gets no new job, and is told to drain; one of the same or of no page does', async () => {
  const on = await start();
  const other = await on.node({ attach: { build: OTHER } });
  await other.until(() => other.commandsOf('drain').length === 1);
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 10 })));
  await expect
    .poll(async () => (await on.client.unary(getLoads, create(GetLoadsRequestSchema))).aggregate?.totalWaitingReqs, {
      timeout: 5_000,
    })
    .toBe(1);
  await other.detach();
  await on.node();
  expect(idsOf((await whole).messages)).toHaveLength(10);
  expect(other.jobs).toEqual([]);
});

test('what runs at a node that turns out to be of another build goes on there', async () => {
  const on = await start();
  const script = { stepMs: 5, attach: {} as { build?: typeof OTHER } };
  const node = await on.node(script);
  const { whole } = await running(on, 60);
  script.attach.build = OTHER;
  await node.reconnect();
  expect(node.welcome?.resumed).toBe(true);
  const next = collect(on.client.stream(generate, requestOf([1, 2], { maxNewTokens: 10 })));
  expect(idsOf((await whole).messages)).toHaveLength(60);
  expect(node.commandsOf('drain')).toHaveLength(1);
  expect(node.jobs).toHaveLength(1);
  await on.node();
  expect(idsOf((await next).messages)).toHaveLength(10);
  expect(node.jobs).toHaveLength(1);
});

test('a waiting job survives nodes that attach and leave at once, within its start wait', async () => {
  const on = await start({ startWaitMs: 15_000, rejoinWaitMs: 0 });
  const survivor = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 10 })), 20_000);
  for (let visit = 0; visit < 3; visit++) {
    const visitor = await on.node({ manual: true });
    await visitor.until(() => visitor.jobs.length === 1);
    await visitor.detach();
  }
  await on.node();
  expect(idsOf((await survivor).messages)).toEqual(outputOf(PROMPT, 10));
});

test('visits do not make the start wait any longer', async () => {
  const on = await start({ startWaitMs: 600, rejoinWaitMs: 0 });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT)), 20_000);
  let over = false;
  void whole.then(() => {
    over = true;
  });
  const at = performance.now();
  while (!over && performance.now() - at < 10_000) {
    const visitor = await on.node({ manual: true });
    await visitor.detach();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  expect((await whole).error?.details).toBe('No node is serving.');
});

test('our own limits: before the first token an error, later an abort with what there is', async () => {
  const on = await start({ firstTokenMs: 200, requestMs: 600 });
  const silent = await on.node({ manual: true, maxRunning: 1 });
  const first = await collect(on.client.stream(generate, requestOf(PROMPT)));
  expect([first.messages, first.error?.code]).toEqual([[], status.DEADLINE_EXCEEDED]);
  await silent.detach();
  await on.node({ stepMs: 20 });
  const { messages, error } = await collect(on.client.stream(generate, requestOf(PROMPT)));
  expect(error).toBeUndefined();
  const last = messages.at(-1)?.response;
  if (last?.case !== 'complete') throw new Error('no complete');
  expect(last.value.finishReason).toBe('abort');
  expect(last.value.outputIds).toEqual(idsOf(messages));
  expect(last.value.outputIds.length).toBeGreaterThan(0);
});

test('a deadline of the client’s own ends its job', async () => {
  const on = await start();
  const node = await on.node({ stepMs: 5 });
  const client = createClient(
    SglangScheduler,
    createGrpcTransport({ baseUrl: `http://127.0.0.1:${on.relay.grpcPort}` }),
  );
  const read = async () => {
    for await (const _ of client.generate(requestOf(PROMPT, { maxNewTokens: 400 }), { timeoutMs: 300 }));
  };
  await expect(read()).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  await node.until(() => node.commandsOf('abort').length === 1);
});
