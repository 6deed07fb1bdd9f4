import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import type { EmbedRequest, EmbedResponse } from '../contract/gen/sglang_scheduler_pb.ts';
import {
  checkEmbed,
  type EmbedLimits,
  type EncodeTexts,
  embedInputs,
  embedJobRequest,
} from '../contract/normalise-embed.ts';
import type { NormalisedRequest } from '../contract/normalised-request.ts';
import { embedResponse } from './embed-response.ts';
import type { Job } from './job.ts';
import type { ServedVectors } from './model/served-vectors.ts';

/** Checks a request for vectors, and tokenises its texts. Rejects with ContractError, or as `encode` does. */
export async function normaliseEmbed(
  request: EmbedRequest,
  limits: EmbedLimits,
  encode: EncodeTexts,
): Promise<NormalisedRequest> {
  checkEmbed(request, limits);
  return embedJobRequest(request, await embedInputs(request, limits, encode), limits);
}

/** Waits for a job's vectors. Rejects with ConnectError: as the job failed, or as its client left. */
export async function answerEmbed(job: Job, vectors: ServedVectors, context: HandlerContext): Promise<EmbedResponse> {
  while (job.outcome === undefined) await job.changed.wait();
  const { outcome } = job;
  if (outcome instanceof ContractError) throw outcome;
  if (outcome === 'left') throw context.signal.reason ?? new ConnectError('The client left.', Code.Canceled);
  // There is no part of a vector that could be told.
  if (!job.whole) throw new ContractError(Code.Aborted, 'The request was aborted.');
  const packed = !/json/i.test(context.requestHeader.get('content-type') ?? '');
  return embedResponse(job, vectors, packed);
}
