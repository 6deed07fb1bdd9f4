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

/** Checks a request for vectors, and tokenises its texts. Throws ContractError. */
export async function normaliseEmbed(
  request: EmbedRequest,
  limits: EmbedLimits,
  encoder: () => Promise<EncodeTexts>,
): Promise<NormalisedRequest> {
  checkEmbed(request, limits);
  // The tokenizer is read for texts only: nearly all requests bring ids.
  const encode = request.texts.length > 0 ? await encoder() : noTexts;
  return embedJobRequest(request, await embedInputs(request, limits, encode), limits);
}

function noTexts(): never {
  throw new Error('a request without texts has none to be tokenised');
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
