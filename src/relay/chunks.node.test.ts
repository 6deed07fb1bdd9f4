import { expect, test, vi } from 'vitest';
import { Finished_Reason } from '../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { answer, chunksOf, completesOf, idsOfChunks } from './testing/answers.ts';
import { benchPerTest, idsOf, PROMPT } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { outputOf } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate } = SglangScheduler.method;
const start = benchPerTest();

test.each([
  // Past what a sample has credit for, and past what is made.
  [1, 5, [1, 1, 1, 1, 1]],
  [2, 5, [2, 2, 1]],
  [3, 6, [3, 3]],
  [100, 250, [100, 100, 50]],
  [1000, 300, [300]],
])('stream_interval %s of %s tokens', async (streamInterval, maxNewTokens, expected) => {
  const on = await start();
  await on.node({ tokensPerStep: 7 });
  const rest = { returnLogprob: true, returnHiddenStates: true };
  const { chunks, completes } = await answer(on, PROMPT, { maxNewTokens, streamInterval }, rest);
  expect(chunks.map(({ tokenIds }) => tokenIds.length)).toEqual(expected);
  expect(idsOfChunks(chunks)).toEqual(outputOf(PROMPT, maxNewTokens));
  let total = 0;
  for (const chunk of chunks) {
    total += chunk.tokenIds.length;
    expect(chunk.completionTokens).toBe(total);
    expect(chunk.outputLogprobs?.tokenIds).toEqual(chunk.tokenIds);
    expect(chunk.hiddenStates).toHaveLength(chunk.tokenIds.length * 64);
  }
  expect(completes[0]?.completionTokens).toBe(maxNewTokens);
});

test('stream_interval counts each sample’s own tokens', async () => {
  const on = await start();
  await on.node();
  const { messages, chunks } = await answer(on, PROMPT, { maxNewTokens: 7, streamInterval: 3, n: 2 });
  for (const index of [0, 1]) {
    expect(idsOf(messages, index)).toEqual(outputOf(PROMPT, 7, index));
    expect(chunks.filter((chunk) => chunk.index === index).map(({ tokenIds }) => tokenIds.length)).toEqual([3, 3, 1]);
  }
});

test('cached tokens are what the node told first, and at most all of the prompt but one', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 2 })));
  await node.until(() => node.jobs.length === 1);
  const jobId = node.jobs[0]?.jobId ?? 0n;
  await node.tell({ jobId, event: { case: 'tokens', value: { tokenIds: [9], cachedTokens: 99 } } });
  await node.tell(
    { jobId, event: { case: 'tokens', value: { tokenIds: [8], offset: 1, cachedTokens: 1 } } },
    { jobId, event: { case: 'finished', value: { reason: Finished_Reason.LENGTH, completionTokens: 2 } } },
  );
  const { messages } = await whole;
  expect(chunksOf(messages).map(({ cachedTokens }) => cachedTokens)).toEqual([4, 4]);
  expect(completesOf(messages)[0]?.cachedTokens).toBe(4);
});

test('an aborted sample’s tokens come all, whatever the interval', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const request = requestOf(PROMPT, { maxNewTokens: 30, streamInterval: 4 }, { requestId: 'r' });
  const whole = collect(on.client.stream(generate, request));
  await node.until(() => node.jobs.length === 1);
  await node.tell({
    jobId: node.jobs[0]?.jobId ?? 0n,
    event: { case: 'tokens', value: { tokenIds: [9, 8, 7, 6, 5, 10] } },
  });
  await on.client.unary(SglangScheduler.method.abort, {
    $typeName: 'sglang.grpc.scheduler.AbortRequest',
    requestId: 'r',
    reason: '',
  });
  const { messages } = await whole;
  expect(chunksOf(messages).map(({ tokenIds }) => tokenIds)).toEqual([
    [9, 8, 7, 6],
    [5, 10],
  ]);
  expect(completesOf(messages)[0]).toMatchObject({ finishReason: 'abort', outputIds: [9, 8, 7, 6, 5, 10] });
});
