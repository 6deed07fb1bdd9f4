import type { MessageInitShape } from '@bufbuild/protobuf';
import { expect, test, vi } from 'vitest';
import { Finished_Reason, type Generate, type NodeEvent, type NodeEventSchema } from '../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { answer, answerWithin, chunksOf, completesOf, idsOfChunks } from './testing/answers.ts';
import { benchPerTest, PROMPT } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { byIdAt, hiddenAt, outputOf, ScriptedEngine, topAfter } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate } = SglangScheduler.method;
const start = benchPerTest();

type Event = MessageInitShape<typeof NodeEventSchema>;

const f32 = (values: readonly number[]) => values.map(Math.fround);
const IDS = [9, 3];
const DETAILS = { returnLogprob: true, topLogprobsNum: 2, tokenIdsLogprob: IDS, logprobStartLen: 0 };

/** The lists of a position at which `id` came: the best, and after them the ids asked for. */
function topOf(id: number) {
  const { tokenIds, logprobs } = topAfter(id, 2);
  return { tokenIds: [...tokenIds, ...IDS], values: f32([...logprobs, ...byIdAt(id, { logprobIds: IDS })]) };
}

test('streaming: the prompt’s logprobs once, in the first chunk; the output’s with their tokens, and all in complete', async () => {
  const on = await start();
  await on.node({ tokensPerStep: 3 });
  const { chunks, completes } = await answer(on, PROMPT, { maxNewTokens: 8 }, DETAILS);
  const ids = outputOf(PROMPT, 8);
  const [first, ...rest] = chunks;
  expect(rest.every((chunk) => chunk.inputLogprobs === undefined)).toBe(true);
  const input = first?.inputLogprobs;
  expect(input?.tokenIds).toEqual(PROMPT);
  expect(input?.tokenLogprobs.map(({ value }) => value)).toEqual([
    undefined,
    ...f32(PROMPT.slice(1).map((id) => -id / 512)),
  ]);
  expect(input?.topLogprobs.map(({ tokenIds, values }) => ({ tokenIds, values }))).toEqual([
    { tokenIds: [], values: [] },
    ...PROMPT.slice(1).map(topOf),
  ]);
  for (const chunk of chunks) {
    const id = chunk.tokenIds[0] as number;
    expect(chunk.outputLogprobs).toMatchObject({
      tokenIds: [id],
      tokenLogprobs: f32([-id / 512]),
      topLogprobs: [topOf(id)],
      tokenIdsLogprobs: [{ tokenIds: IDS, values: f32(byIdAt(id, { logprobIds: IDS })) }],
    });
  }
  expect(completes[0]?.inputLogprobs).toBeUndefined();
  expect(completes[0]?.outputLogprobs).toMatchObject({ tokenIds: ids, topLogprobs: ids.map(topOf) });
  expect(completes[0]?.outputLogprobs?.tokenIdsLogprobs).toHaveLength(8);
});

test('ids alone, without best ones', async () => {
  const on = await start();
  await on.node();
  const { chunks } = await answer(on, PROMPT, { maxNewTokens: 2 }, { returnLogprob: true, tokenIdsLogprob: IDS });
  const id = chunks[0]?.tokenIds[0] as number;
  const list = { tokenIds: IDS, values: f32(byIdAt(id, { logprobIds: IDS })) };
  expect(chunks[0]?.outputLogprobs).toMatchObject({ topLogprobs: [list], tokenIdsLogprobs: [list] });
});

test.each([
  [0, 3],
  [2, 3],
  [4, 1],
])(
  'not streaming, from %s on, n = %s: the prompt’s logprobs once, in the first complete',
  async (logprobStartLen, n) => {
    const on = await start();
    const node = await on.node();
    const { completes } = await answer(
      on,
      PROMPT,
      { maxNewTokens: 4, n },
      { ...DETAILS, logprobStartLen, stream: false },
    );
    expect(completes.map(({ index }) => index)).toEqual(Array.from({ length: n }, (_, at) => at));
    expect(completes.map((one) => one.inputLogprobs?.tokenIds)).toEqual([
      PROMPT.slice(logprobStartLen),
      ...new Array(n - 1).fill(undefined),
    ]);
    expect(completes[0]?.inputLogprobs?.tokenLogprobs[0]?.value === undefined).toBe(logprobStartLen === 0);
    expect(node.jobs[0]?.logprobStart).toBe(logprobStartLen);
  },
);

test('streaming with n = 2: the chunk that goes first has the prompt’s logprobs, whichever sample’s it is', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const request = requestOf(PROMPT, { maxNewTokens: 1, n: 2 }, { returnLogprob: true, logprobStartLen: 3 });
  const stream = on.client.stream(generate, request);
  const whole = collect(stream);
  await node.until(() => node.jobs.length === 1);
  const jobId = node.jobs[0]?.jobId ?? 0n;
  const make = (index: number): Event[] => [
    { jobId, index, event: { case: 'tokens', value: { tokenIds: [9], logprobs: [-1] } } },
    {
      jobId,
      index,
      event: { case: 'finished', value: { reason: Finished_Reason.LENGTH, completionTokens: 1 } },
    },
  ];
  let came = 0;
  stream.on('data', () => came++);
  await node.tell(...make(1));
  // Held until the prompt's are whole: half of them is not enough.
  await node.tell({ jobId, event: { case: 'inputLogprobs', value: { position: 3, logprobs: [{ value: -1 }] } } });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(came).toBe(0);
  await node.tell({ jobId, event: { case: 'inputLogprobs', value: { position: 4, logprobs: [{ value: -2 }] } } });
  await node.tell(...make(0));
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  const chunks = chunksOf(messages);
  expect(chunks.map(({ index }) => index)).toEqual([1, 0]);
  expect(chunks.map((chunk) => chunk.inputLogprobs?.tokenLogprobs.map(({ value }) => value))).toEqual([
    [-1, -2],
    undefined,
  ]);
});

test.each([true, false])('without a token, what is told of the prompt goes in complete: stream %s', async (stream) => {
  const on = await start();
  await on.node();
  const rest = { ...DETAILS, returnHiddenStates: true, stream };
  const { messages, completes } = await answer(on, PROMPT, { maxNewTokens: 0, n: 2 }, rest);
  expect(messages).toHaveLength(2);
  expect(completes[0]?.inputLogprobs?.tokenIds).toEqual(PROMPT);
  expect(completes[1]?.inputLogprobs).toBeUndefined();
  for (const complete of completes) {
    expect(complete.allHiddenStates).toMatchObject([{ position: 4, layer: 4, values: hiddenAt(4) }]);
  }
});

test('hidden states: with their tokens, and one a position from the prompt’s last on', async () => {
  const on = await start();
  await on.node();
  const { chunks, completes } = await answer(on, PROMPT, { maxNewTokens: 3 }, { returnHiddenStates: true });
  expect(chunks.map((chunk) => chunk.hiddenStates)).toEqual([4, 5, 6].map(hiddenAt));
  expect(completes[0]?.allHiddenStates.map(({ position, layer, values }) => ({ position, layer, values }))).toEqual(
    [4, 5, 6].map((position) => ({ position, layer: 4, values: hiddenAt(position) })),
  );
  expect(chunks[0]?.outputLogprobs).toBeUndefined();
});

test('what one message can’t hold goes in chunks only', async () => {
  const on = await start();
  await on.node();
  const rest = {
    returnLogprob: true,
    topLogprobsNum: 512,
    tokenIdsLogprob: Array.from({ length: 512 }, (_, id) => id),
  };
  // 500 positions × 1,536 entries × 6 bytes: a machine with other work may take a while.
  const { chunks, completes } = await answerWithin(45_000, on, PROMPT, { maxNewTokens: 500 }, rest);
  expect(idsOfChunks(chunks)).toEqual(outputOf(PROMPT, 500));
  expect(chunks.every((chunk) => chunk.outputLogprobs?.topLogprobs[0]?.values.length === 1024)).toBe(true);
  expect(completes[0]?.outputLogprobs).toBeUndefined();
  expect(completes[0]?.outputIds).toHaveLength(500);
}, 60_000);

test('a node that is lost while it tells the prompt’s logprobs: another tells them all; after them, none again', async () => {
  const on = await start();
  const first = await on.node({ manual: true });
  const whole = collect(
    on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 6 }, { ...DETAILS, returnHiddenStates: true })),
  );
  await first.until(() => first.jobs.length === 1);
  const jobId = first.jobs[0]?.jobId ?? 0n;
  const empty = { tokenIds: [], logprobs: [] };
  await first.tell({
    jobId,
    event: {
      case: 'inputLogprobs',
      value: { position: 0, logprobs: [{}], topLogprobs: [empty], idLogprobs: [{ values: [] }] },
    },
  });
  const second = await on.node({ manual: true });
  await first.detach();
  await second.until(() => second.jobs.length === 1);
  expect(second.jobs[0]?.logprobStart).toBe(0);
  const script = scripted(second.jobs[0]);
  await second.tell(...script.slice(0, 4));
  const third = await on.node();
  await second.detach();
  const { messages, error } = await whole;
  expect(error).toBeUndefined();
  expect(third.jobs[0]?.logprobStart).toBeUndefined();
  expect(third.jobs[0]?.samples[0]?.emittedIds).toHaveLength(2);
  const chunks = chunksOf(messages);
  expect(chunks.map((chunk) => chunk.inputLogprobs?.tokenIds)).toEqual([PROMPT, ...new Array(5).fill(undefined)]);
  expect(idsOfChunks(chunks)).toEqual(outputOf(PROMPT, 6));
  const complete = completesOf(messages)[0];
  expect(complete?.outputLogprobs?.tokenIds).toEqual(outputOf(PROMPT, 6));
  expect(complete?.allHiddenStates.map(({ position }) => position)).toEqual([4, 5, 6, 7, 8, 9]);
  expect(complete?.allHiddenStates.map(({ values }) => values)).toEqual([4, 5, 6, 7, 8, 9].map(hiddenAt));
});

/** What a scripted engine tells of a job, two events for its prompt and one a token. */
function scripted(job: Generate | undefined): NodeEvent[] {
  if (!job) throw new Error('no job');
  const engine = new ScriptedEngine({});
  engine.submit(job);
  const events: NodeEvent[] = [];
  for (let step = 0; step < 20; step++) events.push(...engine.step());
  return events;
}
