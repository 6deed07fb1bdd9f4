import { create } from '@bufbuild/protobuf';
import { ConnectError } from '@connectrpc/connect';
import type { ContractError } from '../contract/contract-error.ts';
import {
  GenerateCompleteSchema,
  type GenerateResponse,
  GenerateResponseSchema,
  GenerateStreamChunkSchema,
  type OutputLogProbs,
  OutputLogProbsSchema,
  TopLogProbsSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import type { Job, Sample } from './job.ts';

/**
 * Turns what a job gathers into the client's stream: every token in exactly one chunk, one complete per sample in
 * index order, and after a failure `error` where a message went out before. Being asked for the next message means
 * that the last one was written, which is what gives the node further credit. Throws ConnectError.
 */
export async function* streamJob(job: Job): AsyncGenerator<GenerateResponse> {
  let completed = 0;
  for (;;) {
    if (job.outcome === 'left') return;
    const arrived = job.nextArrival();
    if (arrived) {
      job.messages++;
      yield chunkOf(job, arrived);
      job.wrote(arrived);
      continue;
    }
    const sample = job.samples[completed];
    if (!sample) return;
    if (sample.finish) {
      completed++;
      job.messages++;
      yield completeOf(job, sample);
      continue;
    }
    if (job.outcome !== undefined && job.outcome !== 'complete') {
      if (job.messages > 0) yield errorOf(job, job.outcome);
      throw new ConnectError(job.outcome.message, job.outcome.code);
    }
    await job.changed.wait();
  }
}

function chunkOf(job: Job, sample: Sample): GenerateResponse {
  const { request } = job;
  const at = sample.sent;
  const value = create(GenerateStreamChunkSchema, {
    tokenIds: [sample.ids[at] as number],
    promptTokens: request.inputIds.length,
    completionTokens: at + 1,
    cachedTokens: sample.cachedTokens ?? 0,
    index: sample.index,
  });
  if (request.outputLogprobs) value.outputLogprobs = logprobsOf(job, sample, at, at + 1);
  return create(GenerateResponseSchema, { requestId: request.requestId, response: { case: 'chunk', value } });
}

function completeOf(job: Job, sample: Sample): GenerateResponse {
  const { request } = job;
  const { finish } = sample;
  const value = create(GenerateCompleteSchema, {
    outputIds: sample.ids,
    finishReason: finish?.reason ?? 'abort',
    promptTokens: request.inputIds.length,
    completionTokens: sample.ids.length,
    cachedTokens: sample.cachedTokens ?? 0,
    index: sample.index,
  });
  if (finish?.matchedTokenId !== undefined)
    value.matchedStop = { case: 'matchedTokenId', value: finish.matchedTokenId };
  if (finish?.matchedStopString !== undefined) {
    value.matchedStop = { case: 'matchedStopStr', value: finish.matchedStopString };
  }
  if (request.outputLogprobs && request.logprobsInComplete) {
    value.outputLogprobs = logprobsOf(job, sample, 0, sample.ids.length);
  }
  return create(GenerateResponseSchema, { requestId: request.requestId, response: { case: 'complete', value } });
}

function logprobsOf(job: Job, sample: Sample, from: number, to: number): OutputLogProbs {
  const value = create(OutputLogProbsSchema, {
    tokenLogprobs: sample.logprobs.slice(from, to).map((logprob) => logprob ?? 0),
    tokenIds: sample.ids.slice(from, to),
  });
  if (job.request.topLogprobs > 0) {
    value.topLogprobs = sample.tops
      .slice(from, to)
      .map((top) => create(TopLogProbsSchema, { values: [...(top?.logprobs ?? [])], tokenIds: [...(top?.ids ?? [])] }));
  }
  return value;
}

/** The message that goes before a status other than OK, where another message went out. */
export function errorOf(job: Job, error: ContractError): GenerateResponse {
  return create(GenerateResponseSchema, {
    requestId: job.request.requestId,
    response: { case: 'error', value: { message: error.message, httpStatusCode: String(error.httpStatus) } },
  });
}
