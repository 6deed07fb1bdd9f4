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

const end = (jobId: bigint, value: object, index = 0): Event => ({ jobId, index, event: { case: 'finished', value } });
const input = (jobId: bigint, value: object, index = 0): Event => ({
  jobId,
  index,
  event: { case: 'inputLogprobs', value },
});
/** Of position 0, as it is to be told where two best and one id are asked for. */
const nothing = { logprobs: [{}], topLogprobs: [{}], idLogprobs: [{}] };
const one = { logprobs: [{ value: -1 }], topLogprobs: [top([9, 8], [-1, -2])], idLogprobs: [{ values: [-3] }] };
const told = { tokenIds: [9], logprobs: [-1], topLogprobs: one.topLogprobs, idLogprobs: one.idLogprobs };
const state = (values: number[]) => ({ values: [...values, ...new Array(64 - values.length).fill(0)] });

function top(tokenIds: number[], logprobs: number[]) {
  return { tokenIds, logprobs };
}

const LOGPROBS = { returnLogprob: true, topLogprobsNum: 2, tokenIdsLogprob: [3] };
const PROMPT_TOO = { ...LOGPROBS, logprobStartLen: 0 };
const HIDDEN = { returnHiddenStates: true };
type Rest = Parameters<typeof requestOf>[2];
type Sampling = Parameters<typeof requestOf>[1];

const liesAboutDetails: [string, Rest, Sampling, (jobId: bigint) => Event[]][] = [
  ['no top logprobs', LOGPROBS, {}, (id) => [tokens(id, { ...told, topLogprobs: [] })]],
  ['too few top logprobs', LOGPROBS, {}, (id) => [tokens(id, { ...told, topLogprobs: [top([9], [-1])] })]],
  ['a top token twice', LOGPROBS, {}, (id) => [tokens(id, { ...told, topLogprobs: [top([9, 9], [-1, -1])] })]],
  ['a top token outside', LOGPROBS, {}, (id) => [tokens(id, { ...told, topLogprobs: [top([9, 512], [-1, -2])] })]],
  ['the worse one first', LOGPROBS, {}, (id) => [tokens(id, { ...told, topLogprobs: [top([9, 8], [-2, -1])] })]],
  ['a top logprob over 0', LOGPROBS, {}, (id) => [tokens(id, { ...told, topLogprobs: [top([9, 8], [1, -1])] })]],
  ['no id logprobs', LOGPROBS, {}, (id) => [tokens(id, { ...told, idLogprobs: [] })]],
  ['too many id logprobs', LOGPROBS, {}, (id) => [tokens(id, { ...told, idLogprobs: [{ values: [-1, -2] }] })]],
  [
    'an id logprob that is none',
    LOGPROBS,
    {},
    (id) => [tokens(id, { ...told, idLogprobs: [{ values: [Number.NaN] }] })],
  ],
  ['id logprobs that nobody wants', {}, {}, (id) => [tokens(id, { tokenIds: [9], idLogprobs: [{ values: [-1] }] })]],
  ['a prompt’s logprobs that nobody wants', LOGPROBS, {}, (id) => [input(id, { ...nothing })]],
  ['tokens before the prompt’s logprobs', PROMPT_TOO, {}, (id) => [tokens(id, told)]],
  ['tokens amid the prompt’s logprobs', PROMPT_TOO, {}, (id) => [input(id, nothing), tokens(id, told)]],
  ['a prompt’s logprobs out of order', PROMPT_TOO, {}, (id) => [input(id, { ...one, position: 1 })]],
  ['a prompt’s logprobs twice', PROMPT_TOO, {}, (id) => [input(id, nothing), input(id, nothing)]],
  ['a prompt’s logprobs of no position', PROMPT_TOO, {}, (id) => [input(id, {})]],
  ['a logprob of the first token', PROMPT_TOO, {}, (id) => [input(id, { ...nothing, logprobs: [{ value: -1 }] })]],
  [
    'top logprobs of the first token',
    PROMPT_TOO,
    {},
    (id) => [input(id, { ...nothing, topLogprobs: one.topLogprobs })],
  ],
  [
    'no logprob of a later token',
    PROMPT_TOO,
    {},
    (id) => [input(id, nothing), input(id, { ...one, position: 1, logprobs: [{}] })],
  ],
  [
    'a logprob past the prompt',
    { ...LOGPROBS, logprobStartLen: 4 },
    {},
    (id) => [
      input(id, {
        position: 4,
        logprobs: [{ value: -1 }, { value: -1 }],
        topLogprobs: [...one.topLogprobs, ...one.topLogprobs],
        idLogprobs: [...one.idLogprobs, ...one.idLogprobs],
      }),
    ],
  ],
  [
    'a prompt’s logprobs of another sample than the first',
    { ...LOGPROBS, logprobStartLen: 4 },
    { n: 2 },
    (id) => [input(id, { ...one, position: 4 }, 1)],
  ],
  [
    'an end before the prompt’s logprobs',
    PROMPT_TOO,
    { maxNewTokens: 0 },
    (id) => [end(id, { reason: Finished_Reason.LENGTH })],
  ],
  ['no hidden state', HIDDEN, {}, (id) => [tokens(id, { tokenIds: [9] })]],
  ['a small hidden state', HIDDEN, {}, (id) => [tokens(id, { tokenIds: [9], hiddenStates: [{ values: [1] }] })]],
  [
    'a hidden state that is no number',
    HIDDEN,
    {},
    (id) => [tokens(id, { tokenIds: [9], hiddenStates: [state([Number.NaN])] })],
  ],
  ['a hidden state that nobody wants', {}, {}, (id) => [tokens(id, { tokenIds: [9], hiddenStates: [state([])] })]],
  ['no hidden state of the prompt', HIDDEN, { maxNewTokens: 0 }, (id) => [end(id, { reason: Finished_Reason.LENGTH })]],
  [
    'a hidden state of the prompt that nobody wants',
    {},
    { maxNewTokens: 0 },
    (id) => [end(id, { reason: Finished_Reason.LENGTH, hiddenState: state([]) })],
  ],
  ['a stop token before the minimum', {}, { minNewTokens: 2 }, (id) => [tokens(id, { tokenIds: [9, 2] })]],
  [
    'a stop token before the minimum, under a constraint',
    {},
    { minNewTokens: 3, constraint: { case: 'regex', value: 'a*' } },
    (id) => [tokens(id, { tokenIds: [9, 2] })],
  ],
  [
    'a stop at a token that is none, without a constraint',
    {},
    {},
    (id) => [
      tokens(id, { tokenIds: [9] }),
      end(id, { reason: Finished_Reason.STOP, completionTokens: 1, matched: { case: 'matchedTokenId', value: 9 } }),
    ],
  ],
  [
    'a constraint’s end at a token that is not the last',
    {},
    { constraint: { case: 'regex', value: 'a' } },
    (id) => [
      tokens(id, { tokenIds: [9, 8] }),
      end(id, { reason: Finished_Reason.STOP, completionTokens: 2, matched: { case: 'matchedTokenId', value: 9 } }),
    ],
  ],
];

test.each(liesAboutDetails)('a node that tells %s is put out', async (_, rest, sampling, lie) => {
  const on = await start();
  const liar = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 30, ...sampling }, rest)));
  await liar.until(() => liar.jobs.length === 1);
  await on.node();
  await liar.tell(...lie(liar.jobs[0]?.jobId ?? 0n));
  expect(liar.reportError?.code).toBe(Code.InvalidArgument);
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(messages.at(-1)?.response.case).toBe('complete');
});

test('a request whose nodes are put out one after the other ends before they all are', async () => {
  const on = await start();
  const nodes = await Promise.all(Array.from({ length: 4 }, () => on.node({ manual: true })));
  const whole = collect(on.client.stream(generate, requestOf(PROMPT)));
  const has = () => nodes.filter((node) => node.jobs.length === 1);
  for (let lies = 1; lies <= 3; lies++) {
    await Promise.race(nodes.map((node) => node.until(() => has().length >= lies)));
    const liar = has().find((node) => node.reportError === undefined);
    await liar?.tell(tokens(liar.jobs[0]?.jobId ?? 0n, { tokenIds: [512] }));
  }
  expect((await whole).error).toMatchObject({ code: Code.Internal });
  expect(has()).toHaveLength(3);
});

test('what is told as it should be is no lie', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const request = requestOf(PROMPT, { maxNewTokens: 1 }, { ...PROMPT_TOO, ...HIDDEN });
  const whole = collect(on.client.stream(generate, request));
  await node.until(() => node.jobs.length === 1);
  const id = node.jobs[0]?.jobId ?? 0n;
  await node.tell(input(id, nothing), ...[1, 2, 3, 4].map((position) => input(id, { ...one, position })));
  await node.tell(
    tokens(id, { ...told, hiddenStates: [state([1])] }),
    end(id, { reason: Finished_Reason.LENGTH, completionTokens: 1 }),
  );
  expect(node.reportError).toBeUndefined();
  expect((await whole).messages.map(({ response }) => response.case)).toEqual(['chunk', 'complete']);
});

test.each([
  ['more retracted sequences than it was ever given', { retracted: 2 }],
  ['more retracted sequences than wait', { retracted: 1, waiting: 0 }],
  ['tokens of waiting sequences, where none waits', { waiting: 0, waitingUncachedTokens: 1 }],
  ['more cached tokens than its pool has', { cachedTokens: 4097 }],
  ['a hit rate over 1', { cacheHitRate: 1.1 }],
  ['more accepted than drafted', { drafts: 1n, draftedTokens: 4n, acceptedTokens: 5n }],
  ['more drafts than their tokens', { drafts: 5n, draftedTokens: 4n, acceptedTokens: 0n }],
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
