import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { ContractError } from '../contract-error.ts';
import { type GenerateRequest, GenerateRequestSchema, SamplingParamsSchema } from '../gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../normalise-request.ts';
import type { ModelLimits } from '../normalised-request.ts';

export const MODEL: ModelLimits = { vocabSize: 512, contextLength: 512, eosTokenIds: [1, 2], hiddenSize: 64 };
export const BIG: ModelLimits = { vocabSize: 152_064, contextLength: 131_072, eosTokenIds: [7], hiddenSize: 3_584 };

export type Fields = Partial<Omit<GenerateRequest, '$typeName' | 'samplingParams' | 'tokenized'>>;

/** Over the wire and back, as a request comes. */
export function requestOf(
  sampling: object | undefined,
  rest: Fields = {},
  inputIds: number[] = [5, 6, 7],
): GenerateRequest {
  const request = create(GenerateRequestSchema, { logprobStartLen: -1, ...rest, tokenized: { inputIds } });
  if (sampling) request.samplingParams = create(SamplingParamsSchema, sampling);
  return fromBinary(GenerateRequestSchema, toBinary(GenerateRequestSchema, request));
}

/** What a request is refused with. Throws where it is taken. */
export function refusalOf(request: GenerateRequest, model = MODEL): ContractError {
  try {
    normaliseRequest(request, model);
  } catch (error) {
    if (error instanceof ContractError) return error;
    throw error;
  }
  throw new Error('taken');
}
