import type { FailureCode } from '../contract/failure-codes.ts';
import { servedPositions } from '../model/kv-layout.ts';
import { samplingProblem } from '../model/logits-entries.ts';
import { BLOCK_TOKENS, type RunnerLimits } from '../model/runner.ts';
import type { EngineRequest } from './request.ts';

export interface Refusal {
  readonly code: FailureCode;
  readonly message: string;
}

/** Why the engine won't take a request: it contradicts itself, can never fit, or finds no room in the queue. */
export function refusalOf(request: EngineRequest, limits: RunnerLimits, roomInQueue: number): Refusal | undefined {
  const problem = inputProblem(request, limits) ?? samplingRefusal(request, limits) ?? toldProblem(request, limits);
  if (problem !== undefined) return { code: 'invalid_argument', message: problem };
  const { inputIds, samples, maxNewTokens } = request;
  const positions = inputIds.length + Math.max(0, maxNewTokens - 1);
  const served = servedPositions(limits.kvGroups, limits.contextLength);
  if (positions > served) {
    const [needed, blocks] = [positions, served].map((count) => Math.ceil(count / BLOCK_TOKENS));
    return { code: 'resource_exhausted', message: `${needed} KV blocks are needed, the pool has ${blocks}` };
  }
  if (samples.length > roomInQueue) {
    return { code: 'resource_exhausted', message: `the queue has room for ${Math.max(0, roomInQueue)} sequences more` };
  }
  return undefined;
}

function inputProblem(request: EngineRequest, limits: RunnerLimits): string | undefined {
  const { inputIds, inputEmbeds, samples, maxNewTokens } = request;
  const { contextLength, vocabSize, hiddenSize } = limits;
  if (inputIds.length === 0) return 'input_ids is empty';
  const emitted = samples.map((sample) => sample.emittedIds);
  // The ids themselves stay out of messages: prompts are private.
  if ([inputIds, ...emitted].some((ids) => !areIds(ids, vocabSize))) {
    return `an input id is outside the vocabulary of ${vocabSize}`;
  }
  if (inputEmbeds && inputEmbeds.length !== inputIds.length * hiddenSize) {
    return `input_embeds has ${inputEmbeds.length} values for ${inputIds.length} ids, ${hiddenSize} each are needed`;
  }
  if (inputEmbeds && !inputEmbeds.every((value) => Number.isFinite(value))) {
    return 'input_embeds holds a NaN or an infinity';
  }
  if (emitted.some((ids) => ids.length > 0 && ids.length >= maxNewTokens)) {
    return 'a sample has all its tokens already';
  }
  if (inputIds.length + maxNewTokens > contextLength) {
    return `${inputIds.length} input and ${maxNewTokens} new tokens are over the context of ${contextLength}`;
  }
  return undefined;
}

function samplingRefusal(request: EngineRequest, limits: RunnerLimits): string | undefined {
  const { sampling, samples, stopTokenIds, maxNewTokens } = request;
  const { vocabSize, maxBiases } = limits;
  for (const { index } of samples) {
    const problem = samplingProblem({ ...sampling, sampleIndex: index });
    if (problem !== undefined) return problem;
  }
  const { frequencyPenalty, presencePenalty, repetitionPenalty, minNewTokens, maskedStopIds, biases } = sampling;
  if (!(Math.abs(frequencyPenalty) <= 2)) return `frequency_penalty ${frequencyPenalty} is not in [-2, 2]`;
  if (!(Math.abs(presencePenalty) <= 2)) return `presence_penalty ${presencePenalty} is not in [-2, 2]`;
  if (!(repetitionPenalty > 0 && repetitionPenalty <= 2)) {
    return `repetition_penalty ${repetitionPenalty} is not in (0, 2]`;
  }
  if (!(isCount(minNewTokens) && minNewTokens <= maxNewTokens)) {
    return `min_new_tokens ${minNewTokens} is not in [0, ${maxNewTokens}], which is max_new_tokens`;
  }
  if (!areIds(stopTokenIds, vocabSize) || !areIds(maskedStopIds, vocabSize)) {
    return `a stop_token_ids entry is outside the vocabulary of ${vocabSize}`;
  }
  if (biases.length > maxBiases) return `logit_bias has ${biases.length} entries, at most ${maxBiases} are served`;
  const biased = biases.map(({ id }) => id);
  if (!areIds(biased, vocabSize)) return `a logit_bias key is outside the vocabulary of ${vocabSize}`;
  if (new Set(biased).size < biased.length) return 'two logit_bias entries have the same key';
  if (!biases.every(({ bias }) => Number.isFinite(Math.fround(bias)))) return 'a logit_bias value is not a finite f32';
  return undefined;
}

function toldProblem(request: EngineRequest, limits: RunnerLimits): string | undefined {
  const { topLogprobs, logprobIds, logprobStart, hiddenStates, inputIds } = request;
  const { maxTopLogprobs, maxLogprobIds, maxTop, maxHiddenRows, vocabSize } = limits;
  const mostTop = Math.min(maxTopLogprobs, maxTop);
  if (!(isCount(topLogprobs) && topLogprobs <= mostTop)) return `top_logprobs_num is served up to ${mostTop}`;
  const mostIds = Math.min(maxLogprobIds, maxTop);
  if (logprobIds.length > mostIds) return `token_ids_logprob is served with up to ${mostIds} ids`;
  if (!areIds(logprobIds, vocabSize)) return `a token_ids_logprob id is outside the vocabulary of ${vocabSize}`;
  if (logprobStart !== undefined && !(isCount(logprobStart) && logprobStart <= inputIds.length)) {
    return `logprob_start_len ${logprobStart} is not in [0, ${inputIds.length}], the length of input_ids`;
  }
  if (hiddenStates && maxHiddenRows < 1) return 'return_hidden_states is not served here';
  return undefined;
}

function areIds(ids: readonly number[], vocabSize: number): boolean {
  return ids.every((id) => isCount(id) && id < vocabSize);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
