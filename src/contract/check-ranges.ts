import { checkConstraint } from './check-constraint.ts';
import { invalid } from './contract-error.ts';
import type { GenerateRequest, SamplingParams } from './gen/sglang_scheduler_pb.ts';
import type { ModelLimits } from './normalised-request.ts';
import { showFloat } from './show-float.ts';

/** UTF-16 units of a request's id: every message of its stream repeats it. */
export const MAX_REQUEST_ID = 4096;

/**
 * Checks every field's range, those of fields that are not served too: a client's mistake is told as a mistake
 * before anything else is said about it. Zeros are defaults, not values. Throws ContractError (INVALID_ARGUMENT).
 */
export function checkRanges(request: GenerateRequest, sampling: SamplingParams | undefined, model: ModelLimits): void {
  if (request.requestId.length > MAX_REQUEST_ID) {
    throw invalid('request_id', `must be at most ${MAX_REQUEST_ID} characters, got ${request.requestId.length}.`);
  }
  checkInput(request, model);
  if (sampling) checkSampling(sampling, model);
  checkReturnOptions(request, model);
  if (request.loraId !== '' && model.adapterId && model.adapterId(request.loraId) === undefined) {
    throw invalid('lora_id', 'must name an adapter that is loaded.');
  }
  if (request.dataParallelRank !== undefined) {
    const rank = request.dataParallelRank;
    if (rank < 0) throw invalid('data_parallel_rank', `must be >= 0, got ${rank}.`);
    if (model.ranks !== undefined && rank >= model.ranks) {
      throw invalid('data_parallel_rank', `must be in [0, ${model.ranks}), got ${rank}.`);
    }
  }
}

function checkInput(request: GenerateRequest, model: ModelLimits): void {
  const ids = request.tokenized?.inputIds;
  if (!ids) throw invalid('tokenized', 'must be set.');
  if (ids.length === 0) throw invalid('tokenized.input_ids', 'must not be empty.');
  if (ids.length > model.contextLength) {
    throw invalid(
      'tokenized.input_ids',
      `must fit the context of ${model.contextLength} tokens, got ${ids.length} of them.`,
    );
  }
  checkIds('tokenized.input_ids', ids, model.vocabSize);
  const embeds = request.inputEmbeds.length;
  if (embeds > 0 && embeds !== ids.length * model.hiddenSize) {
    throw invalid('input_embeds', `must hold ${ids.length} × ${model.hiddenSize} values, got ${embeds}.`);
  }
  // There may be a million of them.
  for (const value of request.inputEmbeds) {
    if (!Number.isFinite(value)) throw invalid('input_embeds', 'must hold finite numbers only.');
  }
}

function checkSampling(sampling: SamplingParams, model: ModelLimits): void {
  range('temperature', sampling.temperature, (t) => t >= 0, '>= 0');
  if (sampling.topP !== 0) range('top_p', sampling.topP, (p) => p > 0 && p <= 1, 'in (0, 1]');
  if (sampling.topK < -1) throw invalid('top_k', `must be -1 or >= 1, got ${sampling.topK}.`);
  range('min_p', sampling.minP, (p) => p >= 0 && p <= 1, 'in [0, 1]');
  const penalty = (value: number) => value >= -2 && value <= 2;
  range('frequency_penalty', sampling.frequencyPenalty, penalty, 'in [-2, 2]');
  range('presence_penalty', sampling.presencePenalty, penalty, 'in [-2, 2]');
  if (sampling.repetitionPenalty !== 0) {
    range('repetition_penalty', sampling.repetitionPenalty, (p) => p > 0 && p <= 2, 'in (0, 2]');
  }
  if (sampling.n < 0) throw invalid('n', `must be >= 1, got ${sampling.n}.`);
  checkNewTokens(sampling);
  if (sampling.streamInterval !== undefined && sampling.streamInterval < 1) {
    throw invalid('stream_interval', `must be >= 1, got ${sampling.streamInterval}.`);
  }
  if (sampling.stopTokenIds.length > model.vocabSize) {
    throw invalid('stop_token_ids', `must hold at most ${model.vocabSize} ids, got ${sampling.stopTokenIds.length}.`);
  }
  checkIds('stop_token_ids', sampling.stopTokenIds, model.vocabSize);
  if (sampling.stop.includes('')) throw invalid('stop', 'must not hold an empty string.');
  for (const [key, bias] of Object.entries(sampling.logitBias)) {
    // A key is the client's own text: it is not repeated unless it is a plain number, which then names one id only.
    if (!/^(0|[1-9]\d{0,9})$/.test(key)) throw invalid('logit_bias', 'must have token ids as keys.');
    if (Number(key) >= model.vocabSize)
      throw invalid('logit_bias', `must have keys in [0, ${model.vocabSize}), got ${key}.`);
    if (!Number.isFinite(bias)) throw invalid('logit_bias', `must hold finite numbers, got ${bias}.`);
  }
  checkConstraint(sampling.constraint);
}

function checkNewTokens(sampling: SamplingParams): void {
  const { minNewTokens, maxNewTokens } = sampling;
  if (minNewTokens < 0) throw invalid('min_new_tokens', `must be >= 0, got ${minNewTokens}.`);
  // A negative maximum is "all that fits", as the gateway's uint32 ≥ 2³¹ reads here.
  if (maxNewTokens !== undefined && maxNewTokens >= 0 && minNewTokens > maxNewTokens) {
    throw invalid('min_new_tokens', `must be in [0, max_new_tokens (${maxNewTokens})], got ${minNewTokens}.`);
  }
}

function checkReturnOptions(request: GenerateRequest, model: ModelLimits): void {
  const { topLogprobsNum, logprobStartLen } = request;
  if (topLogprobsNum < 0 || topLogprobsNum > model.vocabSize) {
    throw invalid('top_logprobs_num', `must be in [0, ${model.vocabSize}], got ${topLogprobsNum}.`);
  }
  if (request.returnLogprob && logprobStartLen < -1) {
    throw invalid('logprob_start_len', `must be >= -1, got ${logprobStartLen}.`);
  }
  checkIds('token_ids_logprob', request.tokenIdsLogprob, model.vocabSize);
}

function range(field: string, value: number, holds: (value: number) => boolean, form: string): void {
  if (!Number.isFinite(value) || !holds(value)) throw invalid(field, `must be ${form}, got ${showFloat(value)}.`);
}

/** The id itself stays out of the message: it is part of the prompt. */
function checkIds(field: string, ids: readonly number[], vocabSize: number): void {
  for (const id of ids) {
    if (id >= vocabSize) throw invalid(field, `must hold ids in [0, ${vocabSize}).`);
  }
}
