import type { MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { Finished_Reason, type NodeEventSchema } from '../contract/gen/node_relay_pb.ts';
import { type GenerateResponse, SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { MAX_RESPONSE_BYTES } from '../contract/response-size.ts';
import { openModel } from './model/open-model.ts';
import { ForkedRelay } from './testing/forked-relay.ts';
import { collect, GrpcClient } from './testing/grpc-client.ts';
import { MODEL_DIR, requestOf } from './testing/relay-bench.ts';
import { ScriptedNode } from './testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 30_000 });

const { generate } = SglangScheduler.method;
const VOCAB = 152_064;
const HIDDEN = 2_048;
const STALL_MS = 200;

let relay: ForkedRelay;
let client: GrpcClient;
let node: ScriptedNode;
beforeAll(async () => {
  // As a large model is; its files are another's.
  const model = { ...(await openModel(MODEL_DIR)), vocabSize: VOCAB, hiddenSize: HIDDEN, contextLength: 4_096 };
  relay = await ForkedRelay.start({ model });
  client = new GrpcClient(relay.grpcPort);
  const script = { webPort: relay.webPort, modelDigest: relay.digest, contextLength: 4_096, manual: true };
  node = await ScriptedNode.attach(script);
});
afterAll(() => {
  node.kill();
  client.close();
  relay.end();
});

type Event = MessageInitShape<typeof NodeEventSchema>;

/** Sends a request and tells what the node is to tell of it, an event a report; what comes, and the longest stall. */
async function answer(request: Parameters<typeof requestOf>, events: (jobId: bigint) => Event[]) {
  const before = node.jobs.length;
  await relay.longestStall();
  const whole = collect(client.stream(generate, requestOf(...request)), 30_000);
  await node.until(() => node.jobs.length > before);
  const job = node.jobs.at(-1);
  for (const event of events(job?.jobId ?? 0n)) await node.tell(event);
  expect(node.reportError).toBeUndefined();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  return { messages, job, stallMs: (await relay.longestStall()).stallMs };
}

const finished = (jobId: bigint, completionTokens: number): Event => ({
  jobId,
  event: { case: 'finished', value: { reason: Finished_Reason.LENGTH, completionTokens } },
});
function contentOf<C extends 'chunk' | 'complete'>(message: GenerateResponse | undefined, which: C) {
  if (message?.response.case !== which) throw new Error(`no ${which}`);
  return message.response.value as Extract<GenerateResponse['response'], { case: C }>['value'];
}

test('a whole vocabulary’s logprobs of each token: a chunk each, and no stall', async () => {
  const top = {
    tokenIds: Array.from({ length: VOCAB }, (_, id) => VOCAB - 1 - id),
    logprobs: Array.from({ length: VOCAB }, (_, at) => -at / 1024),
  };
  const rest = { returnLogprob: true, topLogprobsNum: VOCAB };
  const { messages, stallMs } = await answer([[5, 6], { maxNewTokens: 3 }, rest], (jobId) => [
    ...[0, 1, 2].map(
      (offset): Event => ({
        jobId,
        event: { case: 'tokens', value: { offset, tokenIds: [9], logprobs: [-1], topLogprobs: [top] } },
      }),
    ),
    finished(jobId, 3),
  ]);
  expect(messages.map(({ response }) => response.case)).toEqual(['chunk', 'chunk', 'chunk', 'complete']);
  expect(contentOf(messages[2], 'chunk')).toMatchObject({
    outputLogprobs: { topLogprobs: [{ tokenIds: top.tokenIds, values: top.logprobs }] },
  });
  expect(stallMs).toBeLessThan(STALL_MS);
});

test('a complete of hidden states, as large as one may be: no stall', async () => {
  const tokens = Math.floor(MAX_RESPONSE_BYTES / (4 * HIDDEN)) - 10;
  // Within the credits that a node has.
  const part = 32;
  const { messages, stallMs } = await answer(
    [[5, 6], { maxNewTokens: tokens }, { returnHiddenStates: true, stream: false }],
    (jobId) => [
      ...Array.from({ length: Math.ceil(tokens / part) }, (_, at) => {
        const count = Math.min(part, tokens - at * part);
        const hiddenStates = Array.from({ length: count }, (_, k) => ({
          values: new Array(HIDDEN).fill(at * part + k),
        }));
        const value = { offset: at * part, tokenIds: new Array(count).fill(9), hiddenStates };
        return { jobId, event: { case: 'tokens', value } } as const;
      }),
      finished(jobId, tokens),
    ],
  );
  const complete = contentOf(messages[0], 'complete');
  expect(complete).toMatchObject({ completionTokens: tokens });
  expect(complete.allHiddenStates.map(({ position, values }) => [position, values.length, values[0]])).toEqual(
    Array.from({ length: tokens }, (_, at) => [at + 1, HIDDEN, at]),
  );
  expect(stallMs).toBeLessThan(STALL_MS);
});

test('as many input embeddings as are taken: no stall', async () => {
  const prompt = new Array(512).fill(5);
  const inputEmbeds = Array.from({ length: 512 * HIDDEN }, (_, at) => at % 1000);
  const { job, stallMs } = await answer([prompt, { maxNewTokens: 0 }, { inputEmbeds }], (jobId) => [
    finished(jobId, 0),
  ]);
  const floats = new Float32Array(job?.inputEmbeds.slice().buffer ?? new ArrayBuffer(0));
  expect(floats).toEqual(Float32Array.from(inputEmbeds));
  expect(stallMs).toBeLessThan(STALL_MS);
});

test('a prompt’s logprobs, as many as one message holds: no stall', async () => {
  const [positions, top, part] = [2_000, 200, 400];
  const list = (at: number) => ({
    tokenIds: Array.from({ length: top }, (_, k) => VOCAB - 1 - k),
    logprobs: Array.from({ length: top }, (_, k) => -at - k),
  });
  const { messages, stallMs } = await answer(
    [
      new Array(positions).fill(5),
      { maxNewTokens: 1 },
      { returnLogprob: true, topLogprobsNum: top, logprobStartLen: 0 },
    ],
    (jobId) => [
      ...Array.from({ length: positions / part }, (_, at): Event => {
        const own = Array.from({ length: part }, (_, k) => at * part + k);
        const value = {
          position: at * part,
          logprobs: own.map((position) => (position === 0 ? {} : { value: -position })),
          topLogprobs: own.map((position) => (position === 0 ? {} : list(position))),
        };
        return { jobId, event: { case: 'inputLogprobs', value } };
      }),
      { jobId, event: { case: 'tokens', value: { tokenIds: [9], logprobs: [-1], topLogprobs: [list(1)] } } },
      finished(jobId, 1),
    ],
  );
  const chunk = contentOf(messages[0], 'chunk');
  const input = chunk.inputLogprobs;
  expect(input?.tokenLogprobs.map(({ value }) => value)).toEqual(
    Array.from({ length: positions }, (_, at) => (at === 0 ? undefined : -at)),
  );
  expect(input?.topLogprobs[1_999]?.values).toEqual(list(1_999).logprobs);
  expect(stallMs).toBeLessThan(STALL_MS);
});
