import { create } from '@bufbuild/protobuf';
import { GenerateRequestSchema } from '../../contract/gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../../contract/normalise-request.ts';
import type { NormalisedRequest } from '../../contract/normalised-request.ts';

/** A request that was taken, with what a test says of it. */
export function normalised(fields: Partial<NormalisedRequest> = {}): NormalisedRequest {
  const model = { vocabSize: 512, contextLength: 512, hiddenSize: 64, eosTokenIds: [1, 2] };
  const request = create(GenerateRequestSchema, { tokenized: { inputIds: [5] }, samplingParams: {}, stream: true });
  return { ...normaliseRequest(request, model), ...fields };
}
