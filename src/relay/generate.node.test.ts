import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { chunksOf, completesOf } from './testing/answers.ts';
import { collect } from './testing/grpc-client.ts';
import { RelayBench, requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate } = SglangScheduler.method;
const PROMPT = [1, 403, 407, 261, 378];

let bench: RelayBench;
beforeEach(async () => {
  bench = await RelayBench.start();
});
afterEach(() => bench.end());

test('every token is in one chunk, then comes one complete', async () => {
  await bench.node({ tokensPerStep: 3 });
  const request = requestOf(PROMPT, { maxNewTokens: 200 }, { requestId: 'r1' });
  const { messages, error } = await collect(bench.client.stream(generate, request));
  expect(error).toBeUndefined();
  const chunks = chunksOf(messages);
  expect(chunks.map((chunk) => chunk.tokenIds)).toEqual(outputOf(PROMPT, 200).map((id) => [id]));
  expect(chunks.map((chunk) => chunk.completionTokens)).toEqual(Array.from({ length: 200 }, (_, at) => at + 1));
  const completes = completesOf(messages);
  expect(completes).toHaveLength(1);
  expect(completes[0]).toMatchObject({ finishReason: 'length', promptTokens: 5, completionTokens: 200 });
  expect(messages.at(-1)?.response.case).toBe('complete');
  expect(messages.every((message) => message.requestId === 'r1')).toBe(true);
});

test('a stop token is in a chunk, and is what matched', async () => {
  const output = outputOf(PROMPT, 50);
  const stop = output[20] as number;
  const until = output.indexOf(stop) + 1;
  await bench.node();
  const request = requestOf(PROMPT, { maxNewTokens: 50, stopTokenIds: [stop] });
  const { messages } = await collect(bench.client.stream(generate, request));
  expect(chunksOf(messages).flatMap((chunk) => chunk.tokenIds)).toEqual(output.slice(0, until));
  expect(completesOf(messages)[0]).toMatchObject({
    finishReason: 'stop',
    completionTokens: until,
    matchedStop: { case: 'matchedTokenId', value: stop },
  });
});

test('not streaming: one complete per sample, in index order, with all ids and logprobs', async () => {
  await bench.node();
  const request = requestOf(
    PROMPT,
    { maxNewTokens: 30, n: 3 },
    { stream: false, returnLogprob: true, topLogprobsNum: 2 },
  );
  const { messages } = await collect(bench.client.stream(generate, request));
  expect(messages.map((message) => message.response.case)).toEqual(['complete', 'complete', 'complete']);
  for (const [index, complete] of completesOf(messages).entries()) {
    const ids = outputOf(PROMPT, 30, index);
    expect(complete.index).toBe(index);
    expect(complete.outputIds).toEqual(ids);
    expect(complete.outputLogprobs?.tokenIds).toEqual(ids);
    expect(complete.outputLogprobs?.tokenLogprobs).toHaveLength(30);
    expect(complete.outputLogprobs?.topLogprobs.map((top) => top.tokenIds.length)).toEqual(ids.map(() => 2));
  }
});

test('streaming logprobs are one to one with the tokens of their chunk', async () => {
  await bench.node({ tokensPerStep: 4 });
  const request = requestOf(PROMPT, { maxNewTokens: 12, n: 2 }, { returnLogprob: true, topLogprobsNum: 1 });
  const { messages } = await collect(bench.client.stream(generate, request));
  for (const chunk of chunksOf(messages)) {
    expect(chunk.outputLogprobs?.tokenIds).toEqual(chunk.tokenIds);
    expect(chunk.outputLogprobs?.tokenLogprobs[0]).toBeCloseTo(-(chunk.tokenIds[0] as number) / 512);
    expect(chunk.outputLogprobs?.topLogprobs).toHaveLength(1);
  }
  expect(completesOf(messages).map((complete) => complete.index)).toEqual([0, 1]);
});

test('max_new_tokens 0 is prefill only', async () => {
  await bench.node();
  const { messages } = await collect(bench.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 0 })));
  expect(messages).toHaveLength(1);
  expect(completesOf(messages)[0]).toMatchObject({ finishReason: 'length', completionTokens: 0 });
});

test('a request sent before any node is answered once one attaches', async () => {
  const answered = collect(bench.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 3 })));
  await bench.node();
  expect(chunksOf((await answered).messages).flatMap((chunk) => chunk.tokenIds)).toEqual(outputOf(PROMPT, 3));
});

test('refusals come before any message, with their status and field', async () => {
  await bench.node();
  const refuse = async (request: ReturnType<typeof requestOf>) => {
    const { messages, error } = await collect(bench.client.stream(generate, request));
    expect(messages).toEqual([]);
    return [error?.code, error?.details];
  };
  expect(await refuse(requestOf(PROMPT, { topP: 1.5 }))).toEqual([
    status.INVALID_ARGUMENT,
    'top_p must be in (0, 1], got 1.5.',
  ]);
  expect(await refuse(requestOf(PROMPT, {}, { loraId: 'x' }))).toEqual([
    status.UNIMPLEMENTED,
    'lora_id is not served: the relay was started without --lora and --max-loras.',
  ]);
});

test('a running request_id is refused, and free again once its stream ended', async () => {
  await bench.node({ stepMs: 5 });
  const request = requestOf(PROMPT, { maxNewTokens: 20 }, { requestId: 'same' });
  const first = bench.client.stream(generate, request);
  const whole = collect(first);
  await new Promise((resolve) => first.once('data', resolve));
  const second = await collect(bench.client.stream(generate, request));
  expect(second.error?.code).toBe(status.ALREADY_EXISTS);
  expect(chunksOf((await whole).messages)).toHaveLength(20);
  expect((await collect(bench.client.stream(generate, request))).error).toBeUndefined();
});
