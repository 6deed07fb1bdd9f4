import { expect, test, vi } from 'vitest';
import { Finished_Reason } from '../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { completesOf } from './testing/answers.ts';
import { benchPerTest, idsOf, PROMPT } from './testing/bench-per-test.ts';
import { collect } from './testing/grpc-client.ts';
import { requestOf } from './testing/relay-bench.ts';
import { hiddenAt } from './testing/scripted-engine.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const { generate } = SglangScheduler.method;
const start = benchPerTest();

test('a constraint may end at any token, and ends an output that another node made', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const constraint = { case: 'regex', value: 'ab' } as const;
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, { maxNewTokens: 9, constraint })));
  await node.until(() => node.jobs.length === 1);
  await node.tell({ jobId: node.jobs[0]?.jobId ?? 0n, event: { case: 'tokens', value: { tokenIds: [9, 8] } } });
  const second = await on.node({ manual: true });
  await node.detach();
  await second.until(() => second.jobs.length === 1);
  expect(second.jobs[0]?.samples[0]?.emittedIds).toEqual([9, 8]);
  const finished = {
    reason: Finished_Reason.STOP,
    completionTokens: 2,
    matched: { case: 'matchedTokenId', value: 8 },
  } as const;
  await second.tell({ jobId: second.jobs[0]?.jobId ?? 0n, event: { case: 'finished', value: finished } });
  const { messages } = await whole;
  expect(idsOf(messages)).toEqual([9, 8]);
  expect(completesOf(messages)[0]).toMatchObject({
    finishReason: 'stop',
    matchedStop: { case: 'matchedTokenId', value: 8 },
  });
});

test('a constraint that only the empty output meets ends with "stop" and no match; no other may', async () => {
  const on = await start();
  const node = await on.node({ manual: true });
  const constraint = { case: 'regex', value: '' } as const;
  const sampling = { maxNewTokens: 9, minNewTokens: 1, constraint };
  const whole = collect(on.client.stream(generate, requestOf(PROMPT, sampling, { returnHiddenStates: true })));
  await node.until(() => node.jobs.length === 1);
  const finished = { reason: Finished_Reason.STOP, hiddenState: { values: hiddenAt(4) } };
  await node.tell({ jobId: node.jobs[0]?.jobId ?? 0n, event: { case: 'finished', value: finished } });
  const { messages, error } = await whole;
  expect({ error, lied: node.reportError }).toEqual({ error: undefined, lied: undefined });
  expect(completesOf(messages)[0]).toMatchObject({ finishReason: 'stop', outputIds: [], matchedStop: {} });
  expect(completesOf(messages)[0]?.allHiddenStates).toMatchObject([{ position: 4, values: hiddenAt(4) }]);
});
