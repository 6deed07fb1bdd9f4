import type { MessageInitShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { status } from '@grpc/grpc-js';
import fc from 'fast-check';
import { afterEach, expect, test, vi } from 'vitest';
import { Finished_Reason, type NodeEventSchema, ResumeSchema } from '../contract/gen/node_relay_pb.ts';
import { type GenerateResponse, GetLoadsRequestSchema, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import type { RelayOptions } from './options.ts';
import { collect } from './testing/grpc-client.ts';
import { RelayBench, requestOf } from './testing/relay-bench.ts';
import { nextOf, outputOf, type ScriptedNode } from './testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate, getLoads } = SglangScheduler.method;
const PROMPT = [1, 403, 407, 261, 378];

let bench: RelayBench | undefined;
afterEach(async () => {
  await bench?.end();
  bench = undefined;
});
async function start(options: Partial<RelayOptions> = {}): Promise<RelayBench> {
  bench = await RelayBench.start(options);
  return bench;
}

function idsOf(messages: GenerateResponse[], index = 0): number[] {
  return messages.flatMap(({ response }) =>
    response.case === 'chunk' && response.value.index === index ? response.value.tokenIds : [],
  );
}

/** A stream that runs: its first chunk has come. `whole` settles with its end. */
async function running(on: RelayBench, maxNewTokens: number, rest: Parameters<typeof requestOf>[2] = {}) {
  const stream = on.client.stream(generate, requestOf(PROMPT, { maxNewTokens }, rest));
  const whole = collect(stream, 20_000);
  await new Promise((resolve) => stream.once('data', resolve));
  return { whole };
}

test('a node of another model is refused, with both digests named', async () => {
  const on = await start();
  const refusal = on.node({ modelDigest: 'f'.repeat(64) });
  await expect(refusal).rejects.toThrow(
    `The relay serves model ${on.relay.model.digest}, the node holds ${'f'.repeat(64)}.`,
  );
  await expect(refusal).rejects.toMatchObject({ code: Code.FailedPrecondition });
});

test.each([
  [{ protocolVersion: 2 }, Code.FailedPrecondition],
  [{ nodeId: 'short' }, Code.InvalidArgument],
  [{ poolTokens: 0 }, Code.InvalidArgument],
  [{ maxRunning: 0 }, Code.InvalidArgument],
  [{ precision: 0 }, Code.InvalidArgument],
])('an Attach with %j is refused', async (attach, code) => {
  const on = await start();
  await expect(on.node({ attach })).rejects.toMatchObject({ code });
});

test('reports of an older epoch, of another relay or of no session get ABORTED', async () => {
  const on = await start();
  const node = await on.node();
  const old = node.fence();
  await node.reconnect();
  expect(node.welcome?.resumed).toBe(true);
  const refuse = (fence: Partial<ReturnType<ScriptedNode['fence']>>) =>
    expect(node.client.report({ ...node.fence(), ...fence })).rejects.toMatchObject({ code: Code.Aborted });
  await refuse({ sessionEpoch: old.sessionEpoch });
  await refuse({ relayEpoch: old.relayEpoch + 1n });
  await refuse({ sessionToken: 'nobody' });
  await expect(node.client.detach(old)).rejects.toMatchObject({ code: Code.Aborted });
  await expect(node.client.report(node.fence())).resolves.toMatchObject({ lastReportSeq: 0n });
});

test('a session of another relay is no more: attach afresh', async () => {
  const on = await start();
  const node = await on.node();
  const resume = { ...node.fence(), lastCommandSeq: 0n };
  const attach = async (other: Partial<typeof resume>) => {
    await on.node({ attach: { resume: create(ResumeSchema, { ...resume, ...other }) } });
  };
  await expect(attach({ relayEpoch: resume.relayEpoch + 1n })).rejects.toMatchObject({ code: Code.Aborted });
  await expect(attach({ sessionToken: 'guessed' })).rejects.toMatchObject({ code: Code.Aborted });
  await expect(attach({ lastCommandSeq: 5n })).rejects.toMatchObject({ code: Code.InvalidArgument });
  await node.detach();
  await expect(attach({})).rejects.toMatchObject({ code: Code.Aborted });
});

test('with fixed ranks, one node more is refused', async () => {
  const on = await start({ ranks: 1 });
  await on.node();
  await expect(on.node()).rejects.toMatchObject({ code: Code.ResourceExhausted });
});

test('a node that comes again under the same id takes its own place', async () => {
  const on = await start();
  const first = await on.node({ nodeId: 'the-same-node' });
  const second = await on.node({ nodeId: 'the-same-node' });
  await first.until(() => first.streamError !== undefined);
  expect(first.streamError?.code).toBe(Code.Aborted);
  expect(second.welcome?.rank).toBe(0);
});

test('a rank is kept for session and lease, and the lowest free one is given', async () => {
  const on = await start();
  const [first, second] = [await on.node(), await on.node()];
  expect([first.welcome?.rank, second.welcome?.rank]).toEqual([0, 1]);
  first.dropStream();
  expect((await on.node()).welcome?.rank).toBe(2);
  await first.reconnect();
  expect(first.welcome?.rank).toBe(0);
  await second.detach();
  expect((await on.node()).welcome?.rank).toBe(1);
});

test('a stream that drops inside the lease resumes: nothing restarts, nothing comes twice', async () => {
  const on = await start();
  const node = await on.node({ stepMs: 2 });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 200 })), 20_000);
  for (let cut = 0; cut < 5; cut++) {
    await node.until(() => node.outputLength(node.jobs[0]?.jobId ?? 0n) >= 20 + cut * 30);
    await node.reconnect();
  }
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(idsOf(messages)).toEqual(outputOf(PROMPT, 200));
  expect(node.jobs).toHaveLength(1);
});

test('lost and doubled reports, cut streams: every token once and in order', async () => {
  const on = await start();
  const fates = ['arrives', 'request lost', 'response lost', 'comes twice'] as const;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...fates), { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 3 }),
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 1, max: 3 }),
      async (losses, cuts, tokensPerStep, n) => {
        // One report in each round comes through whole: nothing but loss would be a dead network.
        const script = [...losses, 'arrives' as const];
        let turn = 0;
        const node = await on.node({
          tokensPerStep,
          fate: () => script[turn++ % script.length] as (typeof fates)[number],
        });
        const request = requestOf(PROMPT, { maxNewTokens: 50, n });
        const whole = collect(on.client.stream(generate, request), 20_000);
        for (const cut of cuts.sort((a, b) => a - b)) {
          await node.until(() => node.outputLength(node.jobs[0]?.jobId ?? 0n) >= cut);
          await node.reconnect();
        }
        const { messages, error } = await whole;
        expect(error).toBeUndefined();
        for (let index = 0; index < n; index++) expect(idsOf(messages, index)).toEqual(outputOf(PROMPT, 50, index));
        expect(node.reportError).toBeUndefined();
        await node.detach();
      },
    ),
    { numRuns: 12, endOnFailure: true },
  );
}, 60_000);

test('a killed node: its stream ends with `error` and UNAVAILABLE when the lease is over', async () => {
  const on = await start({ leaseMs: 600, heartbeatMs: 100 });
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
  const on = await start();
  const node = await on.node({ stepMs: 5, maxRunning: 1 });
  const { whole } = await running(on, 400);
  const silent = await on.node({ manual: true });
  const early = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 5 }, { dataParallelRank: 1 })));
  await silent.until(() => silent.jobs.length === 1);
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

test('with a rejoin wait, a node that comes later goes on', async () => {
  const on = await start({ rejoinWaitMs: 10_000 });
  const first = await on.node({ stepMs: 5 });
  const { whole } = await running(on, 60);
  await first.detach();
  await on.node();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(idsOf(messages)).toEqual(outputOf(PROMPT, 60));
});

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

test('a node that stops making tokens loses the job to another', async () => {
  const on = await start({ tokenStallMs: 300, heartbeatMs: 50 });
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

type Event = MessageInitShape<typeof NodeEventSchema>;
const tokens = (jobId: bigint, value: object): Event => ({ jobId, event: { case: 'tokens', value } });
const lies: [string, (jobId: bigint) => Event][] = [
  ['a token outside the vocabulary', (id) => tokens(id, { tokenIds: [512] })],
  ['a wrong offset', (id) => tokens(id, { tokenIds: [9], offset: 1 })],
  ['more than its credit', (id) => tokens(id, { tokenIds: Array.from({ length: 65 }, () => 9) })],
  ['more than was asked for', (id) => tokens(id, { tokenIds: Array.from({ length: 31 }, () => 9) })],
  ['no token', (id) => tokens(id, {})],
  ['logprobs that nobody wants', (id) => tokens(id, { tokenIds: [9], logprobs: [-1] })],
  ['tokens after a stop token', (id) => tokens(id, { tokenIds: [2, 9] })],
  ['another sample', (id) => ({ ...tokens(id, { tokenIds: [9] }), index: 1 })],
  ['a job it never had', () => tokens(999n, { tokenIds: [9] })],
  ['an early end', (jobId) => ({ jobId, event: { case: 'finished', value: { reason: Finished_Reason.LENGTH } } })],
  ['a stop at nothing', (jobId) => ({ jobId, event: { case: 'finished', value: { reason: Finished_Reason.STOP } } })],
  ['an abort by itself', (jobId) => ({ jobId, event: { case: 'finished', value: { reason: Finished_Reason.ABORT } } })],
  ['an empty event', (jobId) => ({ jobId })],
];

test.each(lies)('a node that tells %s is put out, and its job goes on elsewhere', async (_, lie) => {
  const on = await start();
  const liar = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 30 })));
  await liar.until(() => liar.jobs.length === 1);
  await on.node();
  await liar.tell(lie(liar.jobs[0]?.jobId ?? 0n));
  expect(liar.reportError?.code).toBe(Code.InvalidArgument);
  await liar.until(() => liar.streamError !== undefined);
  expect(liar.streamError?.code).toBe(Code.InvalidArgument);
  expect(idsOf((await whole).messages)).toEqual(outputOf(PROMPT, 30));
});

test('what a node tells late of a job that ended is ignored', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const stream = on.client.stream(generate, requestOf(PROMPT));
  stream.on('error', () => {});
  await node.until(() => node.jobs.length === 1);
  stream.cancel();
  await node.until(() => node.commandsOf('abort').length === 1);
  const jobId = node.jobs[0]?.jobId ?? 0n;
  await node.tell(tokens(jobId, { tokenIds: [9] }), { jobId, event: { case: 'finished', value: { reason: 3 } } });
  expect(node.reportError).toBeUndefined();
});

test('a gap in report numbers and events in a heartbeat end the session', async () => {
  const on = await start();
  const node = await on.node();
  await expect(node.client.report({ ...node.fence(), seq: 2n })).rejects.toMatchObject({ code: Code.InvalidArgument });
  const other = await on.node();
  const report = other.client.report({ ...other.fence(), events: [{ jobId: 1n }] });
  await expect(report).rejects.toBeInstanceOf(ConnectError);
  await expect(other.client.report(other.fence())).rejects.toMatchObject({ code: Code.Aborted });
});

test('a slow reader parks its own sample, and no other', async () => {
  const on = await start();
  const node = await on.node({ tokensPerStep: 8, contextLength: 100_000, poolTokens: 200_000 });
  const slow = on
    .newClient({ 'grpc-node.flow_control_window': 1024 })
    .stream(generate, requestOf(PROMPT, { maxNewTokens: 500 }, { returnLogprob: true, topLogprobsNum: 500 }));
  await new Promise((resolve) => slow.once('data', resolve));
  slow.pause();
  const job = () => node.jobs[0]?.jobId ?? 0n;
  // Parked: with nobody reading, the node stops short of the end, a credit past what went into the pipe.
  await node.until(() => node.outputLength(job()) >= 64);
  const { messages } = await collect(on.client.stream(generate, requestOf([1, 2], { maxNewTokens: 300 })));
  expect(idsOf(messages)).toEqual(outputOf([1, 2], 300));
  expect(node.outputLength(job())).toBeLessThan(500);
  const rest = collect(slow, 20_000);
  slow.resume();
  expect((await rest).messages.at(-1)?.response.case).toBe('complete');
  expect(node.outputLength(job())).toBe(500);
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

test('a seed is the client’s, or one drawn for the request', async () => {
  const on = await start();
  const node = await on.node();
  const ask = (customParams: { seed: number } | undefined) =>
    collect(
      on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 1, ...(customParams ? { customParams } : {}) })),
    );
  await ask({ seed: 42 });
  await ask(undefined);
  await ask(undefined);
  const seeds = node.jobs.map((job) => job.sampling?.seed);
  expect(seeds[0]).toBe(42n);
  expect(seeds[1]).not.toBe(seeds[2]);
  expect(nextOf(PROMPT, 0)).not.toBe(nextOf(PROMPT, 1));
});
