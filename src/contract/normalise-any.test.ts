import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MAX_LOGPROB_IDS, MAX_SAMPLES } from './check-served.ts';
import { ContractError } from './contract-error.ts';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  SamplingParamsSchema,
  TokenizedInputSchema,
} from './gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from './normalise-request.ts';
import type { NormalisedRequest } from './normalised-request.ts';
import { mutatedBytes, mutatedRequest, type RequestWorld, validRequest } from './testing/any-generate-request.ts';
import { MODEL } from './testing/requests.ts';

const WORLD: RequestWorld = {
  model: MODEL,
  maxNewTokens: 500,
  ranks: 3,
  stop: fc.string({ minLength: 1 }),
  constraint: fc.constantFrom(
    { case: 'regex', value: 'a|b' },
    { case: 'jsonSchema', value: '{}' },
    { case: 'ebnfGrammar', value: 'root ::= "a"' },
    { case: 'structuralTag', value: '{}' },
  ),
};

/** Throws where a value is out of its range. */
function expectInRange(request: NormalisedRequest): void {
  const { sampling, inputIds, n, topLogprobs, logprobIds, logprobStart, streamInterval } = request;
  const within = (value: number, least: number, most: number) => {
    expect(value).toBeGreaterThanOrEqual(least);
    expect(value).toBeLessThanOrEqual(most);
  };
  const ids = (values: readonly number[]) => {
    expect(values.every((id) => Number.isInteger(id) && id >= 0 && id < MODEL.vocabSize)).toBe(true);
  };
  expect(sampling.temperature === 0 || sampling.temperature >= 1e-6).toBe(true);
  within(sampling.temperature, 0, 3.4028234663852886e38);
  expect(sampling.topP).toBeGreaterThan(0);
  within(sampling.topP, 0, 1);
  within(sampling.topK, 0, MODEL.vocabSize - 1);
  within(sampling.minP, 0, 1);
  within(sampling.frequencyPenalty, -2, 2);
  within(sampling.presencePenalty, -2, 2);
  expect(sampling.repetitionPenalty).toBeGreaterThan(0);
  within(sampling.repetitionPenalty, 0, 2);
  within(sampling.maxNewTokens, 0, MODEL.contextLength - inputIds.length);
  within(sampling.minNewTokens, 0, sampling.maxNewTokens);
  expect(sampling.maskedStopIds.length > 0).toBe(sampling.minNewTokens > 0);
  expect(sampling.maskedStopIds.length).toBeLessThan(MODEL.vocabSize);
  for (const list of [inputIds, sampling.stopTokenIds, sampling.maskedStopIds, logprobIds]) ids(list);
  ids(sampling.biases.map(({ id }) => id));
  expect(new Set(sampling.biases.map(({ id }) => id)).size).toBe(sampling.biases.length);
  expect(sampling.biases.every(({ bias }) => Number.isFinite(bias))).toBe(true);
  expect(sampling.seed === undefined || (sampling.seed >= 0n && sampling.seed < 2n ** 64n)).toBe(true);
  expect(sampling.stopStrings.every((text) => text.length > 0)).toBe(true);
  expect(inputIds.length).toBeGreaterThan(0);
  within(n, 1, MAX_SAMPLES);
  within(streamInterval, 1, Math.max(1, sampling.maxNewTokens));
  within(topLogprobs, 0, request.outputLogprobs ? MODEL.vocabSize : 0);
  within(logprobIds.length, 0, request.outputLogprobs ? MAX_LOGPROB_IDS : 0);
  if (logprobStart !== undefined) within(logprobStart, 0, inputIds.length - 1);
  const { inputEmbeds } = request;
  expect(inputEmbeds?.length ?? inputIds.length * MODEL.hiddenSize).toBe(inputIds.length * MODEL.hiddenSize);
  expect(inputEmbeds?.every(Number.isFinite) ?? true).toBe(true);
  expect(request.stream || request.detailsInComplete).toBe(true);
  expect(request.bytesPerToken).toBeGreaterThan(0);
}

test('whatever comes is normalised within bounds, or refused with a ContractError that names a field and no prompt', () => {
  const met = { taken: 0, [Code.InvalidArgument]: 0, [Code.Unimplemented]: 0 } as Record<string, number>;
  const names = new Set(
    [GenerateRequestSchema, SamplingParamsSchema, TokenizedInputSchema].flatMap(({ fields }) =>
      fields.map(({ name }) => name),
    ),
  );
  const any = fc.oneof({ weight: 1, arbitrary: validRequest(WORLD) }, { weight: 3, arbitrary: mutatedRequest(WORLD) });
  fc.assert(
    fc.property(any, (sent) => {
      // As it comes: what doesn't survive the wire is not what is checked.
      const request = fromBinary(GenerateRequestSchema, toBinary(GenerateRequestSchema, sent));
      try {
        expectInRange(normaliseRequest(request, MODEL));
        met.taken = (met.taken ?? 0) + 1;
      } catch (error) {
        if (!(error instanceof ContractError)) throw error;
        met[error.code] = (met[error.code] ?? 0) + 1;
        expect([Code.InvalidArgument, Code.Unimplemented]).toContain(error.code);
        expect(error.message.length).toBeLessThan(300);
        expect(names).toContain(error.field?.split('.')[error.field.startsWith('tokenized.') ? 1 : 0]);
        expect(error.message.startsWith(error.field ?? '?')).toBe(true);
      }
    }),
    { numRuns: 2_000 },
  );
  // Else what is checked above would never have been looked at.
  for (const count of Object.values(met)) expect(count).toBeGreaterThan(200);
});

test('bytes that are changed on their way are no request, or one like any other', () => {
  const bytes = validRequest(WORLD).map((request) => toBinary(GenerateRequestSchema, request));
  fc.assert(
    fc.property(mutatedBytes(bytes), (mutated) => {
      let request: GenerateRequest;
      try {
        request = fromBinary(GenerateRequestSchema, mutated);
      } catch {
        return;
      }
      try {
        expectInRange(normaliseRequest(request, MODEL));
      } catch (error) {
        if (!(error instanceof ContractError)) throw error;
      }
    }),
    { numRuns: 500 },
  );
});
