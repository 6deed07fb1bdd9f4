import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import {
  GenerateCompleteSchema,
  GenerateRequestSchema,
  GenerateStreamChunkSchema,
  type OutputLogProbsSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { resultOf, SampleGatherer } from './generate-result.ts';

const request = create(GenerateRequestSchema, {
  requestId: 'r',
  tokenized: { inputIds: [1, 403] },
  returnLogprob: true,
  topLogprobsNum: 2,
  tokenIdsLogprob: [9],
  returnHiddenStates: true,
});
const f = Math.fround;

function logprobsOf(id: number): MessageInitShape<typeof OutputLogProbsSchema> {
  return {
    tokenLogprobs: [f(-0.1)],
    tokenIds: [id],
    topLogprobs: [{ values: [f(-0.1), -2, -30], tokenIds: [id, 5, 9] }],
    tokenIdsLogprobs: [{ values: [-30], tokenIds: [9] }],
  };
}

const INPUT = {
  tokenLogprobs: [{}, { value: f(-0.2) }],
  tokenIds: [1, 403],
  topLogprobs: [{}, { values: [f(-0.2), -3, -40], tokenIds: [403, 5, 9] }],
};

/** Of each id by itself, as both a complete and the chunks bring them. */
const OUTPUT = [432, 383].map((token_id) => ({
  token_id,
  logprob: -0.1,
  top_logprobs: [
    [token_id, -0.1],
    [5, -2],
  ],
  token_ids_logprob: [[9, -30]],
}));

const EXPECTED = {
  request_id: 'r',
  prompt_ids: [1, 403],
  prompt_tokens: 2,
  cached_tokens: 1,
  index: 0,
  output_ids: [432, 383],
  text: '',
  finish_reason: 'stop',
  matched_stop: 'x',
  completion_tokens: 2,
  input_logprobs: [
    { token_id: 1, logprob: null, top_logprobs: [], token_ids_logprob: [] },
    {
      token_id: 403,
      logprob: -0.2,
      top_logprobs: [
        [403, -0.2],
        [5, -3],
      ],
      token_ids_logprob: [[9, -40]],
    },
  ],
  output_logprobs: OUTPUT,
  hidden_states: [
    { position: 1, values: [0.5, -0.1] },
    { position: 2, values: [1, 2] },
  ],
};

const chunk = (id: number, hiddenStates: number[], first = false) =>
  create(GenerateStreamChunkSchema, {
    tokenIds: [id],
    outputLogprobs: logprobsOf(id),
    hiddenStates,
    ...(first ? { inputLogprobs: INPUT } : {}),
  });

const END = {
  outputIds: [432, 383],
  finishReason: 'stop',
  matchedStop: { case: 'matchedStopStr' as const, value: 'x' },
  promptTokens: 2,
  completionTokens: 2,
  cachedTokens: 1,
};

test('chunks alone make the whole result, where the complete was too large', () => {
  const sample = new SampleGatherer(0, 2);
  sample.addChunk(chunk(432, [0.5, f(-0.1)], true));
  sample.addChunk(chunk(383, [1, 2]));
  expect(sample.addComplete(create(GenerateCompleteSchema, END))).toEqual([]);
  expect(resultOf(request, [sample])).toEqual(EXPECTED);
});

test('a complete alone makes it, where the request does not stream', () => {
  const sample = new SampleGatherer(0, 2);
  const [first, second] = [logprobsOf(432), logprobsOf(383)];
  const complete = create(GenerateCompleteSchema, {
    ...END,
    inputLogprobs: INPUT,
    outputLogprobs: {
      tokenLogprobs: [...first.tokenLogprobs!, ...second.tokenLogprobs!],
      tokenIds: [432, 383],
      topLogprobs: [...first.topLogprobs!, ...second.topLogprobs!],
      tokenIdsLogprobs: [...first.tokenIdsLogprobs!, ...second.tokenIdsLogprobs!],
    },
    allHiddenStates: [
      { position: 1, values: [0.5, f(-0.1)] },
      { position: 2, values: [1, 2] },
    ],
  });
  expect(sample.addComplete(complete)).toEqual([432, 383]);
  expect(resultOf(request, [sample])).toEqual(EXPECTED);
});

test('several samples stand by index, the first at the top too', () => {
  const samples = [0, 1].map((index) => {
    const sample = new SampleGatherer(index, 2);
    sample.addComplete(create(GenerateCompleteSchema, { outputIds: [index], finishReason: 'length', index }));
    return sample;
  });
  const plain = create(GenerateRequestSchema, { tokenized: { inputIds: [1, 403] } });
  const result = resultOf(plain, samples);
  expect(result.samples?.map(({ index, output_ids }) => [index, output_ids])).toEqual([
    [0, [0]],
    [1, [1]],
  ]);
  expect(result).toMatchObject({ index: 0, output_ids: [0], matched_stop: null });
  expect(result).not.toHaveProperty('output_logprobs');
  expect(result).not.toHaveProperty('hidden_states');
});
