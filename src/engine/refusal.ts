import { BLOCK_TOKENS, type RunnerLimits } from '../model/runner.ts';
import { samplingProblem } from '../model/step-metadata.ts';
import type { FailureCode } from './event.ts';
import type { EngineRequest } from './request.ts';

export interface Refusal {
  readonly code: FailureCode;
  readonly message: string;
}

/** Why the engine won't take a request: it contradicts itself, can never fit, or finds no room in the queue. */
export function refusalOf(request: EngineRequest, limits: RunnerLimits, roomInQueue: number): Refusal | undefined {
  const invalid = (message: string): Refusal => ({ code: 'invalid_argument', message });
  const { inputIds, samples, maxNewTokens } = request;
  const { contextLength, vocabSize, blocks } = limits;
  if (inputIds.length === 0) return invalid('input_ids is empty');
  const emitted = samples.map((sample) => sample.emittedIds);
  if ([inputIds, ...emitted].some((ids) => ids.some((id) => id >= vocabSize))) {
    // The id itself stays out of the message: prompts are private.
    return invalid(`an input id is outside the vocabulary of ${vocabSize}`);
  }
  if (emitted.some((ids) => ids.length > 0 && ids.length >= maxNewTokens)) {
    return invalid('a sample has all its tokens already');
  }
  if (inputIds.length + maxNewTokens > contextLength) {
    return invalid(`${inputIds.length} input and ${maxNewTokens} new tokens are over the context of ${contextLength}`);
  }
  const { topLogprobs, sampling } = request;
  if (topLogprobs > limits.maxTopLogprobs) return invalid(`top logprobs are told up to ${limits.maxTopLogprobs}`);
  for (const { index } of samples) {
    const problem = samplingProblem({ ...sampling, sampleIndex: index });
    if (problem !== undefined) return invalid(problem);
  }
  const needed = Math.ceil((inputIds.length + Math.max(0, maxNewTokens - 1)) / BLOCK_TOKENS);
  if (needed > blocks) {
    return { code: 'resource_exhausted', message: `${needed} KV blocks are needed, the pool has ${blocks}` };
  }
  if (samples.length > roomInQueue) {
    return { code: 'resource_exhausted', message: `the queue has room for ${Math.max(0, roomInQueue)} sequences more` };
  }
  return undefined;
}
