import { create } from '@bufbuild/protobuf';
import { type Embed, EmbedSchema } from '../contract/gen/node_relay_pb.ts';
import type { Job } from './job.ts';

/** What a node is told of a job that asks for vectors: the inputs that have none yet. */
export function embedCommand(job: Job): Embed {
  const inputs = job.request.embedInputs ?? [];
  return create(EmbedSchema, {
    jobId: job.id,
    inputs: job.unfinished.map(({ index }) => ({
      index,
      inputIds: [...(inputs[index]?.ids ?? [])],
      tokenTypeIds: [...(inputs[index]?.typeIds ?? [])],
    })),
    traceparent: job.traceparent ?? '',
  });
}
