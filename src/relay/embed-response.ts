import { create } from '@bufbuild/protobuf';
import {
  EmbedCompleteSchema,
  EmbeddingSchema,
  type EmbedResponse,
  EmbedResponseSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { packFloats } from '../contract/packed-floats.ts';
import type { Job } from './job.ts';
import { clientValues, type ServedVectors } from './model/served-vectors.ts';

/**
 * The answer to a job whose inputs all have their vectors, in the forms of both gateway generations at once: as `complete`, and in
 * fields of its own. Of several texts both have the first's, and `batch_embeddings` all. `packed`: see MessageForm.
 */
export function embedResponse(job: Job, form: ServedVectors, packed: boolean): EmbedResponse {
  const { requestId, inputIds: ids } = job.request;
  const vectors = job.samples.map(({ vector }) => clientValues(vector ?? new Float32Array(), form));
  const first = vectors[0] ?? new Float32Array();
  const complete = create(EmbedCompleteSchema, { promptTokens: ids.length, embeddingDim: form.size });
  const response = create(EmbedResponseSchema, {
    requestId,
    response: { case: 'complete', value: complete },
    embeddingDim: form.size,
    promptTokens: ids.length,
  });
  if (vectors.length > 1) {
    complete.batchEmbeddings = vectors.map((vector, index) => {
      const value = create(EmbeddingSchema, { index });
      if (packed) packFloats(value, 1, vector);
      else value.values = [...vector];
      return value;
    });
  }
  if (packed) {
    packFloats(complete, 1, first);
    packFloats(response, 5, first);
  } else {
    complete.embedding = [...first];
    response.embedding = [...first];
  }
  return response;
}
