import { create } from '@bufbuild/protobuf';
import { expect, test, vi } from 'vitest';
import { SamplingParamsSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { answer } from './testing/answers.ts';
import { benchPerTest, PROMPT } from './testing/bench-per-test.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const start = benchPerTest();

test('every field of a request reaches the node', async () => {
  const on = await start();
  const node = await on.node();
  const told = {
    returnLogprob: true,
    topLogprobsNum: 2,
    tokenIdsLogprob: [9, 3],
    logprobStartLen: 0,
    returnHiddenStates: true,
  };
  const inputEmbeds = Array.from({ length: 5 * 64 }, (_, at) => at / 8);
  const sampling = create(SamplingParamsSchema, {
    frequencyPenalty: -0.5,
    presencePenalty: 0.25,
    repetitionPenalty: 1.5,
    minNewTokens: 2,
    stopTokenIds: [510],
    logitBias: { 7: 1.5 },
    constraint: { case: 'regex', value: 'a+' },
  });
  await answer(on, PROMPT, { maxNewTokens: 3, ...sampling }, { ...told, inputEmbeds });
  const job = node.jobs[0];
  expect(job?.sampling).toMatchObject({
    frequencyPenalty: -0.5,
    presencePenalty: 0.25,
    repetitionPenalty: 1.5,
    minNewTokens: 2,
    logitBiases: [{ tokenId: 7, bias: 1.5 }],
  });
  expect(job?.sampling?.maskedStopIds).toEqual(job?.sampling?.stopTokenIds);
  expect(job).toMatchObject({
    outputLogprobs: true,
    topLogprobs: 2,
    logprobIds: [9, 3],
    logprobStart: 0,
    hiddenStates: true,
    constraint: { case: 'regex', value: 'a+' },
  });
  expect(new Float32Array(job?.inputEmbeds.slice().buffer ?? new ArrayBuffer(0))).toEqual(
    Float32Array.from(inputEmbeds),
  );
});
