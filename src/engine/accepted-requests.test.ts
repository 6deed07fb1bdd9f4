import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ContractError } from '../contract/contract-error.ts';
import { GenerateRequestSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../contract/normalise-request.ts';
import type { ModelLimits, NormalisedRequest } from '../contract/normalised-request.ts';
import { BLOCK_TOKENS, type RunnerLimits } from '../model/runner.ts';
import { PLAIN_SLOT } from '../model/slot-traits.ts';
import { encodeStep } from '../model/step-metadata.ts';

const MODEL: ModelLimits = { vocabSize: 512, contextLength: 64, eosTokenIds: [1, 2], hiddenSize: 64 };
/** A node's, for that model. */
const RUNNER: RunnerLimits = {
  maxRows: 64,
  maxSequences: 1,
  maxLogitsRows: 1,
  maxTopLogprobs: MODEL.vocabSize,
  maxTop: MODEL.vocabSize,
  maxBiases: MODEL.vocabSize,
  maxLogprobIds: MODEL.vocabSize,
  maxHiddenRows: 1,
  hiddenSize: MODEL.hiddenSize,
  contextLength: MODEL.contextLength,
  vocabSize: MODEL.vocabSize,
  kvGroups: [{ blocks: MODEL.contextLength / BLOCK_TOKENS }],
};

const EDGES = [
  0, -0, 1, -1, 2, 1e-45, 1e-38, 9.9e-7, 1e-6, 0.1, 0.5, 0.99999994, 1.0000001, 1e29, 1e30, 3.4028234663852886e38,
];
/** Mostly what a field may hold, so that whole requests are taken; else the edges of its rules, and anything. */
const mostly = <T>(valid: fc.Arbitrary<T>, ...other: fc.Arbitrary<T>[]) =>
  fc.oneof({ arbitrary: valid, weight: 12 }, ...other.map((arbitrary) => ({ arbitrary, weight: 1 })));
const edge = fc.constantFrom(...EDGES.map(Math.fround));
const unit = mostly(fc.float({ min: 0, max: 1 }), edge, fc.float());
const integer = fc.oneof(fc.constantFrom(-1, 0, 1, 511, 512, 513, 1024, 1025, 2 ** 31 - 1), fc.integer());
const penalty = mostly(fc.float({ min: -2, max: 2 }), edge, fc.float());
const id = fc.integer({ min: 0, max: 511 });
const asked = fc.record({
  temperature: mostly(fc.float({ min: 0, noNaN: true, noDefaultInfinity: true }), edge, fc.float()),
  topP: unit,
  minP: unit,
  topK: mostly(fc.integer({ min: -1, max: 2 ** 31 - 1 }), integer),
  n: mostly(fc.integer({ min: 0, max: 128 }), integer),
  maxNewTokens: fc.option(integer, { nil: undefined }),
  ignoreEos: fc.boolean(),
  frequencyPenalty: penalty,
  presencePenalty: penalty,
  repetitionPenalty: mostly(fc.float({ min: 0, max: 2 }), edge, fc.float()),
  minNewTokens: mostly(fc.integer({ min: 0, max: 3 }), integer),
  logitBias: fc.dictionary(mostly(fc.nat(511).map(String), fc.string()), mostly(edge, fc.float()), { maxKeys: 4 }),
  tokenIdsLogprob: mostly(fc.array(id, { maxLength: 4 }), fc.array(integer, { maxLength: 2 })),
  topLogprobsNum: mostly(fc.integer({ min: 0, max: 512 }), integer),
  returnLogprob: fc.boolean(),
  seed: fc.option(fc.maxSafeInteger(), { nil: undefined }),
  inputIds: mostly(
    fc.array(id, { minLength: 1, maxLength: 64 }),
    fc.array(fc.oneof(id, fc.constantFrom(512, 2 ** 32 - 1)), { maxLength: 66 }),
  ),
});

/** What of a request is taken; undefined where it is refused. */
function taken({ topLogprobsNum, returnLogprob, tokenIdsLogprob, seed, inputIds, maxNewTokens, ...sampling }: Asked) {
  const request = create(GenerateRequestSchema, {
    tokenized: { inputIds },
    stream: true,
    logprobStartLen: -1,
    topLogprobsNum,
    returnLogprob,
    tokenIdsLogprob: tokenIdsLogprob.map((one) => one >>> 0),
    samplingParams: {
      ...sampling,
      ...(maxNewTokens === undefined ? {} : { maxNewTokens }),
      ...(seed === undefined ? {} : { customParams: { seed } }),
    },
  });
  try {
    return normaliseRequest(fromBinary(GenerateRequestSchema, toBinary(GenerateRequestSchema, request)), MODEL);
  } catch (error) {
    if (error instanceof ContractError) return undefined;
    throw error;
  }
}
type Asked = typeof asked extends fc.Arbitrary<infer T> ? T : never;

/** The step that makes output token `outputPosition` of a sample, as an engine would plan it. */
function encode(request: NormalisedRequest, sample: number, at: number) {
  const { inputIds, sampling, topLogprobs, outputLogprobs, logprobIds } = request;
  const first = at === 0;
  const position = first ? 0 : inputIds.length + at - 1;
  const batch = {
    sequences: [
      {
        slot: 0,
        tokens: first ? inputIds : ('slot' as const),
        startPosition: position,
        blockTable: Array.from({ length: RUNNER.kvGroups[0]!.blocks }, (_, block) => block),
      },
    ],
    logits: [
      {
        row: first ? inputIds.length - 1 : 0,
        slot: 0,
        sampling: {
          // Over the wire to the node a float is an f32; it is one already.
          temperature: Math.fround(sampling.temperature),
          topP: Math.fround(sampling.topP),
          minP: Math.fround(sampling.minP),
          topK: sampling.topK,
          seed: sampling.seed ?? 2n ** 64n - 1n,
          sampleIndex: sample,
        },
        outputPosition: at,
        logprob: outputLogprobs,
        topLogprobs,
        idLogprobs: logprobIds.length > 0,
        hidden: request.hiddenStates,
      },
    ],
    starts: [
      {
        slot: 0,
        outputIds: new Array(at).fill(511),
        frequencyPenalty: Math.fround(sampling.frequencyPenalty),
        presencePenalty: Math.fround(sampling.presencePenalty),
        repetitionPenalty: Math.fround(sampling.repetitionPenalty),
        stopIds: sampling.maskedStopIds,
        minNewTokens: sampling.minNewTokens,
        biases: sampling.biases.map(({ id: one, bias }) => ({ id: one, bias: Math.fround(bias) })),
        logprobIds,
      },
    ],
  };
  return encodeStep(new Uint32Array(8192), batch, { limits: RUNNER, splitItems: 64 }, [PLAIN_SLOT]);
}

test('whatever normaliseRequest accepts, encodeStep accepts', () => {
  let accepted = 0;
  fc.assert(
    fc.property(asked, (one) => {
      const request = taken(one);
      if (!request) return;
      accepted++;
      const { maxNewTokens } = request.sampling;
      // With no token to make there is a prefill, and nothing is sampled.
      if (maxNewTokens === 0) return;
      for (const at of [0, maxNewTokens - 1]) for (const sample of [0, request.n - 1]) encode(request, sample, at);
    }),
    { numRuns: 5_000 },
  );
  // Else the property says nothing.
  expect(accepted).toBeGreaterThan(1_000);
});

test.each(EDGES.map(Math.fround).filter((value) => value >= 0))('temperature %s reaches the runner', (temperature) => {
  const one: Asked = {
    temperature,
    topP: 1,
    minP: 0,
    topK: -1,
    n: 1,
    maxNewTokens: undefined,
    ignoreEos: false,
    frequencyPenalty: 0,
    presencePenalty: 0,
    repetitionPenalty: 1,
    minNewTokens: 0,
    logitBias: {},
    tokenIdsLogprob: [],
    topLogprobsNum: 0,
    returnLogprob: false,
    seed: undefined,
    inputIds: [5],
  };
  const request = taken(one);
  if (!request) throw new Error('refused');
  expect(encode(request, 0, 0).logits[0]?.temperature).toBe(temperature < 1e-6 ? 0 : temperature);
});
