import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { expect, test, vi } from 'vitest';
import { Finished_Reason, type NodeEventSchema } from '../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { FlushCacheRequestSchema } from '../contract/gen/smg_common_pb.ts';
import { benchPerTest, idsOf, PROMPT } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate, flushCache } = SglangScheduler.method;
const start = benchPerTest();

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
  [
    'a stop string in no output',
    (jobId) => ({
      jobId,
      event: {
        case: 'finished',
        value: { reason: Finished_Reason.STOP, matched: { case: 'matchedStopString', value: 'end' } },
      },
    }),
  ],
  ['an abort by itself', (jobId) => ({ jobId, event: { case: 'finished', value: { reason: Finished_Reason.ABORT } } })],
  ['an empty event', (jobId) => ({ jobId })],
  ['an answer to no flush', () => ({ event: { case: 'cacheFlushed', value: { flushId: 1n } } })],
];

test.each(lies)('a node that tells %s is put out, and its job goes on elsewhere', async (_, lie) => {
  const on = await start();
  const liar = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 30, stop: ['end'] })));
  await liar.until(() => liar.jobs.length === 1);
  await on.node();
  await liar.tell(lie(liar.jobs[0]?.jobId ?? 0n));
  expect(liar.reportError?.code).toBe(Code.InvalidArgument);
  await liar.until(() => liar.streamError !== undefined);
  expect(liar.streamError?.code).toBe(Code.InvalidArgument);
  expect(idsOf((await whole).messages)).toEqual(outputOf(PROMPT, 30));
});

test.each([
  ['more retracted sequences than it was ever given', { retracted: 2 }],
  ['more retracted sequences than wait', { retracted: 1, waiting: 0 }],
  ['tokens of waiting sequences, where none waits', { waiting: 0, waitingUncachedTokens: 1 }],
  ['more cached tokens than its pool has', { cachedTokens: 4097 }],
  ['a hit rate over 1', { cacheHitRate: 1.1 }],
])('a node that tells %s is put out', async (_, load) => {
  const on = await start();
  const liar = await on.node({ manual: true });
  on.client.stream(generate, requestOf(PROMPT)).on('error', () => {});
  await liar.until(() => liar.jobs.length === 1);
  liar.load = load;
  await liar.report(true);
  expect(liar.reportError?.code).toBe(Code.InvalidArgument);
});

const flushed = (flushId: bigint, value: object = {}): Event => ({
  event: { case: 'cacheFlushed', value: { flushId, ...value } },
});
const falseFlushes: [string, (flushId: bigint) => Event[]][] = [
  ['twice', (id) => [flushed(id), flushed(id)]],
  ['another', (id) => [flushed(id + 1n)]],
  ['with more than its pool has', (id) => [flushed(id, { freedTokens: 4097 })]],
  ['as of a job', (id) => [{ ...flushed(id), jobId: 1n }]],
];

test.each(falseFlushes)('a node that answers a flush %s is put out', async (_, answers) => {
  const on = await start();
  const liar = await on.node({ manual: true });
  const answer = on.client.unary(flushCache, create(FlushCacheRequestSchema));
  await liar.until(() => liar.commandsOf('flushCache').length === 1);
  await liar.tell(...answers(liar.commandsOf('flushCache')[0]?.flushId ?? 0n));
  expect(liar.reportError?.code).toBe(Code.InvalidArgument);
  await answer;
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
