import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MAX_CONSTRAINT_BYTES } from './check-constraint.ts';
import { MAX_BIASES, MAX_LOGPROB_IDS, MAX_SAMPLES } from './check-served.ts';
import { ContractError } from './contract-error.ts';
import {
  DisaggregatedParamsSchema,
  type GenerateRequest,
  GenerateRequestSchema,
  MultimodalInputsSchema,
  SamplingParamsSchema,
} from './gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from './normalise-request.ts';
import type { ModelLimits } from './normalised-request.ts';

const MODEL: ModelLimits = { vocabSize: 512, contextLength: 512, eosTokenIds: [1, 2], hiddenSize: 64 };
const BIG: ModelLimits = { vocabSize: 152_064, contextLength: 131_072, eosTokenIds: [7], hiddenSize: 3_584 };

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

describe('logprobs', () => {
  test.each([
    [-1, undefined],
    [0, 0],
    [2, 2],
    [3, undefined],
    [100, undefined],
  ])('a start of %s in a prompt of 3 is %s', (logprobStartLen, expected) => {
    const request = requestOf({}, { returnLogprob: true, logprobStartLen, topLogprobsNum: 4, tokenIdsLogprob: [9, 3] });
    const { logprobStart, outputLogprobs, topLogprobs, logprobIds } = normaliseRequest(request, MODEL);
    expect([logprobStart, outputLogprobs, topLogprobs, logprobIds]).toEqual([expected, true, 4, [9, 3]]);
  });

  test('start, top and ids mean nothing where no logprobs are asked for', () => {
    const request = requestOf({}, { logprobStartLen: 0, topLogprobsNum: 4, tokenIdsLogprob: [9] });
    expect(normaliseRequest(request, MODEL)).toMatchObject({
      outputLogprobs: false,
      logprobStart: undefined,
      topLogprobs: 0,
      logprobIds: [],
    });
  });

  test('the whole vocabulary, and no more', () => {
    const ask = (topLogprobsNum: number) =>
      requestOf({ maxNewTokens: 4 }, { returnLogprob: true, topLogprobsNum, stream: true });
    const whole = normaliseRequest(ask(BIG.vocabSize), BIG);
    expect(whole).toMatchObject({ topLogprobs: BIG.vocabSize, detailsInComplete: false });
    // A chunk of one token, as the gateway takes it.
    expect(whole.bytesPerToken).toBeLessThan(1.2 * 2 ** 20);
    expect(refusalOf(ask(BIG.vocabSize + 1), BIG)).toMatchObject({ code: Code.InvalidArgument });
  });
});

describe('a response that one message can’t hold', () => {
  const of = (sampling: object, rest: Fields, prompt = 3) =>
    requestOf({ maxNewTokens: 100_000, ...sampling }, rest, new Array(prompt).fill(5));

  test.each<[Fields, string]>([
    [{ returnLogprob: true, topLogprobsNum: 20 }, 'top_logprobs_num'],
    [{ returnLogprob: true, tokenIdsLogprob: [1, 2, 3] }, 'token_ids_logprob'],
    [{ returnHiddenStates: true }, 'return_hidden_states'],
    [{ returnLogprob: true, topLogprobsNum: 20, returnHiddenStates: true }, 'top_logprobs_num'],
  ])('%j: is to be streamed, and its complete then leaves out what the chunks had', (rest, field) => {
    const refusal = refusalOf(of({ maxNewTokens: 131_000 }, rest), BIG);
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, field });
    expect(refusal.message).toContain('use stream=true');
    expect(normaliseRequest(of({}, { ...rest, stream: true }), BIG).detailsInComplete).toBe(false);
    expect(normaliseRequest(of({ maxNewTokens: 10 }, { ...rest, stream: true }), BIG).detailsInComplete).toBe(true);
  });

  test('a chunk of many tokens names stream_interval', () => {
    const rest = { returnLogprob: true, topLogprobsNum: 1000, stream: true };
    expect(refusalOf(of({ streamInterval: 1000 }, rest), BIG)).toMatchObject({
      code: Code.InvalidArgument,
      field: 'stream_interval',
    });
    expect(normaliseRequest(of({ streamInterval: 100 }, rest), BIG).streamInterval).toBe(100);
  });

  test.each([true, false])('the prompt’s logprobs go in one message, or are refused: stream %s', (stream) => {
    const ask = (topLogprobsNum: number, logprobStartLen: number) =>
      of({ maxNewTokens: 1 }, { returnLogprob: true, topLogprobsNum, logprobStartLen, stream }, 2_000);
    expect(refusalOf(ask(1_000, 0), BIG)).toMatchObject({ code: Code.InvalidArgument, field: 'top_logprobs_num' });
    expect(refusalOf(ask(1_000, 0), BIG).message).toContain('logprob_start_len (0)');
    expect(normaliseRequest(ask(1_000, 1_700), BIG).logprobStart).toBe(1_700);
  });
});

describe('what is served besides', () => {
  const served = (sampling: object, rest: Fields = {}) => normaliseRequest(requestOf(sampling, rest), MODEL);

  test('penalties, and their defaults', () => {
    const penalties = { frequencyPenalty: -2, presencePenalty: 2, repetitionPenalty: 1.5 };
    expect(served(penalties).sampling).toMatchObject(penalties);
    expect(served({}).sampling).toMatchObject({ frequencyPenalty: 0, presencePenalty: 0, repetitionPenalty: 1 });
  });

  test('min_new_tokens masks stop ids and EOS, with ignore_eos too; it is clipped as the maximum is', () => {
    const some = { minNewTokens: 3, stopTokenIds: [9, 1] };
    expect(served(some).sampling).toMatchObject({ minNewTokens: 3, maskedStopIds: [9, 1, 2], stopTokenIds: [9, 1, 2] });
    expect(served({ ...some, ignoreEos: true }).sampling).toMatchObject({ maskedStopIds: [9, 1, 2], stopTokenIds: [] });
    expect(served({ ...some, minNewTokens: 0 }).sampling.maskedStopIds).toEqual([]);
    expect(served({ minNewTokens: 2 ** 31 - 1 }).sampling).toMatchObject({ minNewTokens: 509, maxNewTokens: 509 });
  });

  test('logit_bias, up to as many entries as are served', () => {
    const bias = (entries: number) => Object.fromEntries(Array.from({ length: entries }, (_, id) => [id, -1.5]));
    expect(served({ logitBias: { 5: 1, 511: -100 } }).sampling.biases).toEqual([
      { id: 5, bias: 1 },
      { id: 511, bias: -100 },
    ]);
    expect(served({ logitBias: bias(512) }).sampling.biases).toHaveLength(512);
    const big = (entries: number) => requestOf({ maxNewTokens: 1, logitBias: bias(entries) });
    expect(normaliseRequest(big(MAX_BIASES), BIG).sampling.biases).toHaveLength(MAX_BIASES);
    expect(refusalOf(big(MAX_BIASES + 1), BIG)).toMatchObject({ code: Code.Unimplemented, field: 'logit_bias' });
  });

  test.each([
    ['regex', 'regex', 'a+', 'a+'],
    // It matches the empty output.
    ['regex', 'regex', '', ''],
    ['jsonSchema', 'json_schema', '{"type":"object"}', '{"type":"object"}'],
    // SGLang's word for any JSON.
    ['jsonSchema', 'json_schema', '$$ANY$$', '{}'],
    ['ebnfGrammar', 'ebnf_grammar', 'root ::= "a"', 'root ::= "a"'],
    ['structuralTag', 'structural_tag', '{}', '{}'],
  ])('constraint %s', (name, kind, value, text) => {
    expect(served({ constraint: { case: name, value } }).constraint).toEqual({ kind, text });
  });

  test('stream_interval, at most the tokens to be made', () => {
    expect(served({ streamInterval: 3, maxNewTokens: 10 }).streamInterval).toBe(3);
    expect(served({ streamInterval: 2 ** 31 - 1, maxNewTokens: 10 }).streamInterval).toBe(10);
    expect(served({ streamInterval: 5, maxNewTokens: 0 }).streamInterval).toBe(1);
  });

  test('hidden states and input embeddings', () => {
    const inputEmbeds = Array.from({ length: 192 }, (_, at) => at / 4);
    const request = served({ maxNewTokens: 4 }, { returnHiddenStates: true, inputEmbeds });
    expect(request.hiddenStates).toBe(true);
    expect(request.inputEmbeds).toEqual(Float32Array.from(inputEmbeds));
    expect(served({}).inputEmbeds).toBeUndefined();
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
