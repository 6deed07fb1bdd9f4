import { create } from '@bufbuild/protobuf';
import { ConnectError } from '@connectrpc/connect';
import type { ContractError } from '../contract/contract-error.ts';
import { type GenerateResponse, GenerateResponseSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { chunkOf, completeOf, type MessageForm } from './generate-messages.ts';
import type { Job } from './job.ts';
import { StreamParts } from './stream-parts.ts';

/**
 * A job's stream as messages, with `error` before a failure where a message went out before. Being asked for the next
 * message means that the last one was written, which is what gives the node further credit. Throws ConnectError.
 */
export async function* streamJob(job: Job, form: MessageForm): AsyncGenerator<GenerateResponse> {
  const parts = new StreamParts(job);
  for (;;) {
    const part = parts.next();
    switch (part?.case) {
      case undefined:
        await job.changed.wait();
        break;
      case 'chunk':
        job.messages++;
        yield chunkOf(job, part.chunk, form);
        job.wrote(part.chunk);
        break;
      case 'complete':
        job.messages++;
        yield completeOf(job, part.sample, form);
        break;
      case 'failed':
        if (job.messages > 0) yield errorOf(job, part.error);
        throw new ConnectError(part.error.message, part.error.code);
      case 'over':
        return;
    }
  }
}

/** The message that goes before a status other than OK, where another message went out. */
export function errorOf(job: Job, error: ContractError): GenerateResponse {
  return create(GenerateResponseSchema, {
    requestId: job.request.requestId,
    response: { case: 'error', value: { message: error.message, httpStatusCode: String(error.httpStatus) } },
  });
}
