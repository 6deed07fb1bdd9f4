import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MAX_SAMPLES, MAX_TOP_LOGPROBS } from './check-served.ts';
import { ContractError } from './contract-error.ts';
import { type GenerateRequest, GenerateRequestSchema, SamplingParamsSchema } from './gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from './normalise-request.ts';
import type { ModelLimits } from './normalised-request.ts';

const MODEL: ModelLimits = { vocabSize: 512, contextLength: 512, eosTokenIds: [1, 2], hiddenSize: 64 };
const BIG: ModelLimits = { vocabSize: 128_000, contextLength: 131_072, eosTokenIds: [] };

type Fields = Partial<Omit<GenerateRequest, '$typeName' | 'samplingParams' | 'tokenized'>>;

/** Over the wire and back, as a request comes. */
function requestOf(sampling: object | undefined, rest: Fields = {}, inputIds: number[] = [5, 6, 7]): GenerateRequest {
  const request = create(GenerateRequestSchema, { logprobStartLen: -1, ...rest, tokenized: { inputIds } });
  if (sampling) request.samplingParams = create(SamplingParamsSchema, sampling);
  return fromBinary(GenerateRequestSchema, toBinary(GenerateRequestSchema, request));
}

function refusalOf(request: GenerateRequest, model = MODEL): ContractError {
  try {
    normaliseRequest(request, model);
  } catch (error) {
    if (error instanceof ContractError) return error;
    throw error;
  }
  throw new Error('taken');
}

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
  // A mistake is told before what is not served.
  [{ frequencyPenalty: 1, topP: 2 }, { loraId: 'x' }, 'top_p must be in (0, 1], got 2.'],
])('INVALID_ARGUMENT: %j %j', (sampling, rest, message) => {
  const refusal = refusalOf(requestOf(sampling, rest));
  expect([refusal.code, refusal.message]).toEqual([Code.InvalidArgument, message]);
  expect(message.startsWith(refusal.field ?? '?')).toBe(true);
});

test.each<[object | undefined, Fields, string]>([
  [{ frequencyPenalty: 0.5 }, {}, 'frequency_penalty'],
  [{ presencePenalty: 0.5 }, {}, 'presence_penalty'],
  [{ repetitionPenalty: 1.1 }, {}, 'repetition_penalty'],
  [{ minNewTokens: 1 }, {}, 'min_new_tokens'],
  [{ logitBias: { 5: 1 } }, {}, 'logit_bias'],
  [{ streamInterval: 2 }, {}, 'stream_interval'],
  [{ n: MAX_SAMPLES + 1 }, {}, 'n'],
  [{ constraint: { case: 'regex', value: 'a' } }, {}, 'regex'],
  [{ constraint: { case: 'jsonSchema', value: '{}' } }, {}, 'json_schema'],
  [{ constraint: { case: 'ebnfGrammar', value: 'a' } }, {}, 'ebnf_grammar'],
  [{ constraint: { case: 'structuralTag', value: 'a' } }, {}, 'structural_tag'],
  [{ customParams: { other: 1 } }, {}, 'custom_params.other'],
  // Its order would be ignored.
  [{ customParams: { priority: 1 } }, {}, 'custom_params.priority'],
  [{}, { tokenIdsLogprob: [5] }, 'token_ids_logprob'],
  [{}, { returnHiddenStates: true }, 'return_hidden_states'],
  [{}, { inputEmbeds: new Array(192).fill(0) }, 'input_embeds'],
  [{}, { loraId: 'x' }, 'lora_id'],
  [{}, { customLogitProcessor: 'x' }, 'custom_logit_processor'],
  [{}, { requireReasoning: true }, 'require_reasoning'],
  [{}, { returnLogprob: true, logprobStartLen: 0 }, 'logprob_start_len'],
])('UNIMPLEMENTED: %j %j', (sampling, rest, field) => {
  const refusal = refusalOf(requestOf(sampling, rest));
  expect([refusal.code, refusal.field]).toEqual([Code.Unimplemented, field]);
  expect(refusal.message.startsWith(field)).toBe(true);
});

describe('logprobs', () => {
  test.each([-1, 3, 100])('a start of %s asks for none of the prompt', (logprobStartLen) => {
    const request = requestOf({}, { returnLogprob: true, logprobStartLen, topLogprobsNum: 4 });
    expect(normaliseRequest(request, MODEL)).toMatchObject({ outputLogprobs: true, topLogprobs: 4 });
  });

  test('the start means nothing where no logprobs are asked for', () => {
    expect(normaliseRequest(requestOf({}, { logprobStartLen: 0 }), MODEL).outputLogprobs).toBe(false);
  });

  test('as many as are served, where the vocabulary is larger', () => {
    const ask = (topLogprobsNum: number) =>
      requestOf({ maxNewTokens: 4 }, { returnLogprob: true, topLogprobsNum, stream: true });
    expect(normaliseRequest(ask(MAX_TOP_LOGPROBS), BIG).topLogprobs).toBe(MAX_TOP_LOGPROBS);
    expect(refusalOf(ask(MAX_TOP_LOGPROBS + 1), BIG)).toMatchObject({ code: Code.Unimplemented });
  });

  test('a response that one message can’t hold is to be streamed, and then its complete leaves them out', () => {
    const ask = (stream: boolean) =>
      requestOf({ maxNewTokens: 100_000 }, { returnLogprob: true, topLogprobsNum: 20, stream });
    expect(refusalOf(ask(false), BIG)).toMatchObject({ code: Code.InvalidArgument, field: 'top_logprobs_num' });
    expect(refusalOf(ask(false), BIG).message).toContain('use stream=true');
    expect(normaliseRequest(ask(true), BIG).logprobsInComplete).toBe(false);
  });
});

test('prompts: unset, empty, too long, outside the vocabulary, too large for every pool', () => {
  const unset = create(GenerateRequestSchema);
  expect(refusalOf(unset)).toMatchObject({ code: Code.InvalidArgument, message: 'tokenized must be set.' });
  expect(refusalOf(requestOf({}, {}, []))).toMatchObject({ code: Code.InvalidArgument });
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

/** Any request that the wire can bring, biased towards the borders of what is valid. */
const anyFloat = fc.oneof(fc.float(), fc.constantFrom(0, 1, -1, 0.5, 1.5, 2, Number.NaN, Number.POSITIVE_INFINITY));
const anyInt = fc.oneof(fc.integer(), fc.integer({ min: -2, max: 3 }));
const anyId = fc.oneof(fc.integer({ min: 0, max: 520 }), fc.integer({ min: 0, max: 2 ** 32 - 1 }));
const anyRequest = fc.record(
  {
    requestId: fc.string(),
    tokenized: fc.record({ originalText: fc.string(), inputIds: fc.array(anyId) }),
    samplingParams: fc.record(
      {
        temperature: anyFloat,
        topP: anyFloat,
        topK: anyInt,
        minP: anyFloat,
        frequencyPenalty: anyFloat,
        repetitionPenalty: anyFloat,
        maxNewTokens: anyInt,
        minNewTokens: anyInt,
        n: anyInt,
        stop: fc.array(fc.string(), { maxLength: 3 }),
        stopTokenIds: fc.array(anyId, { maxLength: 3 }),
        streamInterval: anyInt,
        logitBias: fc.dictionary(fc.string(), anyFloat, { maxKeys: 2 }),
        customParams: fc.dictionary(fc.oneof(fc.constantFrom('seed', 'priority'), fc.string()), fc.jsonValue(), {
          maxKeys: 2,
        }),
        ignoreEos: fc.boolean(),
      },
      { requiredKeys: [] },
    ),
    returnLogprob: fc.boolean(),
    logprobStartLen: anyInt,
    topLogprobsNum: anyInt,
    tokenIdsLogprob: fc.array(anyId, { maxLength: 2 }),
    inputEmbeds: fc.array(anyFloat, { maxLength: 2 }),
    dataParallelRank: anyInt,
    stream: fc.boolean(),
  },
  { requiredKeys: [] },
);

/** Served, or nearly so: what is left to chance is in range. */
const nearlyServed = fc.record({
  tokenized: fc.record({ inputIds: fc.array(fc.integer({ min: 0, max: 511 }), { minLength: 1, maxLength: 520 }) }),
  samplingParams: fc.record({
    temperature: fc.float({ min: 0, noNaN: true, noDefaultInfinity: true }),
    topP: fc.float({ min: 0, max: 1, noNaN: true }),
    topK: fc.integer({ min: -1 }),
    minP: fc.float({ min: 0, max: 1, noNaN: true }),
    maxNewTokens: fc.integer(),
    n: fc.integer({ min: 0, max: 130 }),
  }),
  returnLogprob: fc.boolean(),
  logprobStartLen: fc.constantFrom(-1, 600),
  topLogprobsNum: fc.integer({ min: 0, max: 512 }),
  stream: fc.boolean(),
});

test('whatever comes is normalised within bounds, or refused with a ContractError that names no id of the prompt', () => {
  let taken = 0;
  fc.assert(
    fc.property(fc.oneof(anyRequest, nearlyServed), (init) => {
      const request = create(GenerateRequestSchema, init as object);
      try {
        const { sampling, inputIds, n, topLogprobs } = normaliseRequest(request, MODEL);
        taken++;
        expect(Number.isFinite(sampling.temperature) && sampling.temperature >= 0).toBe(true);
        expect(sampling.topP > 0 && sampling.topP <= 1).toBe(true);
        expect(sampling.topK >= 0 && sampling.topK < MODEL.vocabSize).toBe(true);
        expect(sampling.minP >= 0 && sampling.minP <= 1).toBe(true);
        expect(sampling.maxNewTokens).toBeGreaterThanOrEqual(0);
        expect(inputIds.length).toBeGreaterThan(0);
        expect(inputIds.length + sampling.maxNewTokens).toBeLessThanOrEqual(MODEL.contextLength);
        expect(n >= 1 && n <= MAX_SAMPLES).toBe(true);
        expect(topLogprobs >= 0 && topLogprobs <= MODEL.vocabSize).toBe(true);
      } catch (error) {
        if (!(error instanceof ContractError)) throw error;
        expect([Code.InvalidArgument, Code.Unimplemented, Code.ResourceExhausted]).toContain(error.code);
        expect(error.message.length).toBeLessThan(300);
      }
    }),
    { numRuns: 2_000 },
  );
  // Else the bounds above would never have been looked at.
  expect(taken).toBeGreaterThan(200);
});
