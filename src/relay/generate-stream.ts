import { create } from '@bufbuild/protobuf';
import { ConnectError } from '@connectrpc/connect';
import type { ContractError } from '../contract/contract-error.ts';
import { type GenerateResponse, GenerateResponseSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { chunkOf, completeOf, type MessageForm } from './generate-messages.ts';
import type { Job } from './job.ts';

/**
 * Turns what a job gathers into the client's stream: every token in exactly one chunk, one complete per sample in
 * index order, and after a failure `error` where a message went out before. Being asked for the next message means
 * that the last one was written, which is what gives the node further credit. Throws ConnectError.
 */
export async function* streamJob(job: Job, form: MessageForm): AsyncGenerator<GenerateResponse> {
  let completed = 0;
  for (;;) {
    if (job.outcome === 'left') return;
    const chunk = job.nextChunk();
    if (chunk) {
      job.messages++;
      yield chunkOf(job, chunk, form);
      job.wrote(chunk);
      continue;
    }
    const sample = job.samples[completed];
    if (!sample) return;
    if (sample.finish) {
      completed++;
      job.messages++;
      yield completeOf(job, sample, form);
      continue;
    }
    if (job.outcome !== undefined && job.outcome !== 'complete') {
      if (job.messages > 0) yield errorOf(job, job.outcome);
      throw new ConnectError(job.outcome.message, job.outcome.code);
    }
    await job.changed.wait();
  }
}

/** The message that goes before a status other than OK, where another message went out. */
export function errorOf(job: Job, error: ContractError): GenerateResponse {
  return create(GenerateResponseSchema, {
    requestId: job.request.requestId,
    response: { case: 'error', value: { message: error.message, httpStatusCode: String(error.httpStatus) } },
  });
}
