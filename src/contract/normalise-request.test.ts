import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { describe, expect, test } from 'vitest';
import { MAX_CONSTRAINT_BYTES } from './check-constraint.ts';
import { MAX_LOGPROB_IDS, MAX_SAMPLES } from './check-served.ts';
import { DisaggregatedParamsSchema, GenerateRequestSchema, MultimodalInputsSchema } from './gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from './normalise-request.ts';
import { type Fields, MODEL, refusalOf, requestOf } from './testing/requests.ts';

describe('defaults', () => {
  test('zeros are defaults, as SGLang’s own warm-up sends them', () => {
    const { sampling, n } = normaliseRequest(requestOf({ temperature: 0 }), MODEL);
    expect(n).toBe(1);
    expect(sampling).toMatchObject({ temperature: 0, topP: 1, topK: 0, minP: 0, seed: undefined });
    expect(sampling.maxNewTokens).toBe(509);
    expect(sampling.stopTokenIds).toEqual([1, 2]);
  });

  test('without sampling_params temperature is 1', () => {
    expect(normaliseRequest(requestOf(undefined), MODEL).sampling.temperature).toBe(1);
  });

  test('what the gateway sends explicitly is the same', () => {
    const explicit = { temperature: 1, topP: 1, topK: -1, minP: 0, repetitionPenalty: 1, n: 1, streamInterval: 1 };
    expect(normaliseRequest(requestOf(explicit), MODEL)).toEqual(
      normaliseRequest(requestOf({ temperature: 1 }), MODEL),
    );
  });

  test('a temperature below 1e-6 is greedy', () => {
    expect(normaliseRequest(requestOf({ temperature: 9e-7 }), MODEL).sampling.temperature).toBe(0);
    expect(normaliseRequest(requestOf({ temperature: 2e-6 }), MODEL).sampling.temperature).toBeGreaterThan(0);
  });

  test.each([
    [undefined, 509],
    [-1, 509],
    // G2's uint32 2³¹ reads as this.
    [-2147483648, 509],
    [2147483647, 509],
    [10, 10],
    [0, 0],
  ])('max_new_tokens %s is %s', (maxNewTokens, expected) => {
    const sampling = maxNewTokens === undefined ? {} : { maxNewTokens };
    expect(normaliseRequest(requestOf(sampling), MODEL).sampling.maxNewTokens).toBe(expected);
  });

  test('ignore_eos switches off stop ids, and no stop string', () => {
    const { sampling } = normaliseRequest(requestOf({ ignoreEos: true, stopTokenIds: [9], stop: ['x'] }), MODEL);
    expect([sampling.stopTokenIds, sampling.stopStrings]).toEqual([[], ['x']]);
  });

  test('a prompt that fills the context leaves room for nothing', () => {
    const full = requestOf({}, {}, new Array(512).fill(5));
    expect(normaliseRequest(full, MODEL).sampling.maxNewTokens).toBe(0);
  });

  test.each([
    [42, 42n],
    [0, 0n],
    [-1, 2n ** 64n - 1n],
    [2 ** 53 - 1, 2n ** 53n - 1n],
  ])('seed %s', (seed, key) => {
    expect(normaliseRequest(requestOf({ customParams: { seed } }), MODEL).sampling.seed).toBe(key);
  });

  test.each([
    [undefined, 0],
    [0, 0],
    [-0, 0],
    [7, 7],
    [-(2 ** 31), -(2 ** 31)],
    [2 ** 31 - 1, 2 ** 31 - 1],
  ])('priority %s, beside a seed', (priority, expected) => {
    const customParams = { seed: 3, ...(priority === undefined ? {} : { priority }) };
    const request = normaliseRequest(requestOf({ customParams }), { ...MODEL, servesPriority: true });
    expect([request.priority, request.sampling.seed]).toEqual([expected, 3n]);
  });

  test('priority 0 is served anywhere', () => {
    expect(normaliseRequest(requestOf({ customParams: { priority: 0 } }), MODEL).priority).toBe(0);
  });
});

test.each<[object | undefined, Fields, string]>([
  [{ temperature: -1 }, {}, 'temperature must be >= 0, got -1.'],
  [{ temperature: Number.NaN }, {}, 'temperature must be >= 0, got NaN.'],
  [{ temperature: Number.POSITIVE_INFINITY }, {}, 'temperature must be >= 0, got Infinity.'],
  [{ topP: 1.5 }, {}, 'top_p must be in (0, 1], got 1.5.'],
  [{ topP: -0.1 }, {}, 'top_p must be in (0, 1], got -0.1.'],
  [{ topK: -2 }, {}, 'top_k must be -1 or >= 1, got -2.'],
  [{ minP: 1.01 }, {}, 'min_p must be in [0, 1], got 1.01.'],
  [{ frequencyPenalty: 2.5 }, {}, 'frequency_penalty must be in [-2, 2], got 2.5.'],
  [{ presencePenalty: -3 }, {}, 'presence_penalty must be in [-2, 2], got -3.'],
  [{ repetitionPenalty: 2.1 }, {}, 'repetition_penalty must be in (0, 2], got 2.1.'],
  [{ n: -1 }, {}, 'n must be >= 1, got -1.'],
  [{ minNewTokens: -1 }, {}, 'min_new_tokens must be >= 0, got -1.'],
  [{ minNewTokens: 5, maxNewTokens: 4 }, {}, 'min_new_tokens must be in [0, max_new_tokens (4)], got 5.'],
  [{ streamInterval: 0 }, {}, 'stream_interval must be >= 1, got 0.'],
  [{ stopTokenIds: [512] }, {}, 'stop_token_ids must hold ids in [0, 512).'],
  [{ stop: ['a', ''] }, {}, 'stop must not hold an empty string.'],
  [{ logitBias: { x: 1 } }, {}, 'logit_bias must have token ids as keys.'],
  // It would name the same id as another key.
  [{ logitBias: { '05': 1 } }, {}, 'logit_bias must have token ids as keys.'],
  [{ logitBias: { '-1': 1 } }, {}, 'logit_bias must have token ids as keys.'],
  [
    { minNewTokens: 1, stopTokenIds: Array.from({ length: 512 }, (_, id) => id) },
    {},
    'min_new_tokens leaves no token to be made: stop_token_ids holds the whole vocabulary.',
  ],
  [{ constraint: { case: 'jsonSchema', value: '{' } }, {}, 'json_schema must be JSON.'],
  [{ constraint: { case: 'jsonSchema', value: '' } }, {}, 'json_schema must be JSON.'],
  [{ constraint: { case: 'structuralTag', value: 'x' } }, {}, 'structural_tag must be JSON.'],
  [{ constraint: { case: 'ebnfGrammar', value: '' } }, {}, 'ebnf_grammar must not be empty.'],
  [
    { constraint: { case: 'regex', value: 'é'.repeat(MAX_CONSTRAINT_BYTES / 2 + 1) } },
    {},
    `regex must be at most ${MAX_CONSTRAINT_BYTES} bytes, got ${MAX_CONSTRAINT_BYTES + 2}.`,
  ],
  [{ logitBias: { 512: 1 } }, {}, 'logit_bias must have keys in [0, 512), got 512.'],
  [{ logitBias: { 5: Number.NaN } }, {}, 'logit_bias must hold finite numbers, got NaN.'],
  [{ customParams: { seed: 1.5 } }, {}, 'custom_params.seed must be an integer in [-(2^53 - 1), 2^53 - 1].'],
  [{ customParams: { seed: 'one' } }, {}, 'custom_params.seed must be an integer in [-(2^53 - 1), 2^53 - 1].'],
  [{ customParams: { seed: null } }, {}, 'custom_params.seed must be an integer in [-(2^53 - 1), 2^53 - 1].'],
  [{ customParams: { priority: 0.5 } }, {}, 'custom_params.priority must be an integer in [-2^31, 2^31 - 1].'],
  [{ customParams: { priority: 2 ** 31 } }, {}, 'custom_params.priority must be an integer in [-2^31, 2^31 - 1].'],
  [{ customParams: { priority: '1' } }, {}, 'custom_params.priority must be an integer in [-2^31, 2^31 - 1].'],
  [{}, { topLogprobsNum: -1 }, 'top_logprobs_num must be in [0, 512], got -1.'],
  [{}, { topLogprobsNum: 513 }, 'top_logprobs_num must be in [0, 512], got 513.'],
  [{}, { returnLogprob: true, logprobStartLen: -2 }, 'logprob_start_len must be >= -1, got -2.'],
  [{}, { tokenIdsLogprob: [600] }, 'token_ids_logprob must hold ids in [0, 512).'],
  [{}, { dataParallelRank: -1 }, 'data_parallel_rank must be >= 0, got -1.'],
  [{}, { inputEmbeds: [1, 2] }, 'input_embeds must hold 3 × 64 values, got 2.'],
  [{}, { inputEmbeds: new Array(192).fill(Number.NaN) }, 'input_embeds must hold finite numbers only.'],
  [{}, { requestId: 'x'.repeat(5000) }, 'request_id must be at most 4096 characters, got 5000.'],
  // A mistake is told before what is not served.
  [{ frequencyPenalty: 1, topP: 2 }, { loraId: 'x' }, 'top_p must be in (0, 1], got 2.'],
])('INVALID_ARGUMENT: %j %j', (sampling, rest, message) => {
  const refusal = refusalOf(requestOf(sampling, rest));
  expect([refusal.code, refusal.message]).toEqual([Code.InvalidArgument, message]);
  expect(message.startsWith(refusal.field ?? '?')).toBe(true);
});

test.each<[object | undefined, Fields, string]>([
  [{ n: MAX_SAMPLES + 1 }, {}, 'n'],
  [{ customParams: { other: 1 } }, {}, 'custom_params.other'],
  // Its order would be ignored.
  [{ customParams: { priority: 1 } }, {}, 'custom_params.priority'],
  [{}, { tokenIdsLogprob: new Array(MAX_LOGPROB_IDS + 1).fill(5) }, 'token_ids_logprob'],
  [{}, { loraId: 'x' }, 'lora_id'],
  [{}, { customLogitProcessor: 'x' }, 'custom_logit_processor'],
  [{}, { requireReasoning: true }, 'require_reasoning'],
  [{}, { mmInputs: create(MultimodalInputsSchema, { imageUrls: ['x'] }) }, 'mm_inputs'],
  [{}, { disaggregatedParams: create(DisaggregatedParamsSchema) }, 'disaggregated_params'],
  [
    {},
    {
      disaggregatedParams: create(DisaggregatedParamsSchema, {
        bootstrapHost: 'h',
        bootstrapPort: 1,
        bootstrapRoom: 2,
      }),
    },
    'disaggregated_params',
  ],
])('UNIMPLEMENTED: %j %j', (sampling, rest, field) => {
  const refusal = refusalOf(requestOf(sampling, rest));
  expect([refusal.code, refusal.field]).toEqual([Code.Unimplemented, field]);
  expect(refusal.message.startsWith(field)).toBe(true);
});

test.each<MessageInitShape<typeof MultimodalInputsSchema>>([
  { imageUrls: ['x'] },
  { videoUrls: ['x'] },
  { audioUrls: ['x'] },
  { processedFeatures: { a: 1 } },
  { imageData: [Uint8Array.of(1)] },
  { videoData: [Uint8Array.of(1)] },
  { audioData: [Uint8Array.of(1)] },
  { modalities: ['image'] },
])('media of any sort is UNIMPLEMENTED, and none is nothing: %j', (media) => {
  const of = (inputs: MessageInitShape<typeof MultimodalInputsSchema>) =>
    requestOf({}, { mmInputs: create(MultimodalInputsSchema, inputs) });
  expect(refusalOf(of(media))).toMatchObject({ code: Code.Unimplemented, field: 'mm_inputs' });
  expect(normaliseRequest(of({}), MODEL)).toEqual(normaliseRequest(requestOf({}), MODEL));
});

test('spaces_between_special_tokens and no_stop_trim change nothing', () => {
  const plain = normaliseRequest(requestOf({ temperature: 1 }), MODEL);
  for (const field of ['spacesBetweenSpecialTokens', 'noStopTrim']) {
    expect(normaliseRequest(requestOf({ temperature: 1, [field]: true }), MODEL)).toEqual(plain);
  }
});

test('prompts: unset, empty, too long, outside the vocabulary, too large for every pool', () => {
  const unset = create(GenerateRequestSchema);
  expect(refusalOf(unset)).toMatchObject({ code: Code.InvalidArgument, message: 'tokenized must be set.' });
  expect(refusalOf(requestOf({}, {}, []))).toMatchObject({
    code: Code.InvalidArgument,
    message: 'tokenized.input_ids must not be empty.',
  });
  expect(refusalOf(requestOf({}, {}, new Array(513).fill(5)))).toMatchObject({ code: Code.InvalidArgument });
  const outside = refusalOf(requestOf({}, {}, [5, 987_654]));
  expect(outside.code).toBe(Code.InvalidArgument);
  // Ids of a prompt are not told.
  expect(outside.message).not.toContain('987654');
  expect(refusalOf(requestOf({}), { ...MODEL, poolTokens: 2 }).code).toBe(Code.ResourceExhausted);
});

test('with fixed ranks, one that can never be is a mistake', () => {
  expect(refusalOf(requestOf({}, { dataParallelRank: 2 }), { ...MODEL, ranks: 2 })).toMatchObject({
    code: Code.InvalidArgument,
    field: 'data_parallel_rank',
  });
  expect(normaliseRequest(requestOf({}, { dataParallelRank: 0 }), MODEL).rank).toBe(0);
});
