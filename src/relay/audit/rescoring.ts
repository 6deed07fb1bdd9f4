import { HEAD } from '../../contract/draw-uniform.ts';
import type { NormalisedRequest } from '../../contract/normalised-request.ts';

/** Tokens of prompt and output that an audit may have: what it holds at the relay is bounded by that. */
export const MOST_AUDITED_TOKENS = 4_096;

/**
 * The request by which a node scores what another made: a prompt, of whose last part the best logprobs are asked for, and
 * no token to be made.
 */
export function rescoring(prompt: readonly number[], output: readonly number[], vocabulary: number): NormalisedRequest {
  return {
    requestId: '',
    inputIds: [...prompt, ...output],
    sampling: {
      ...{ temperature: 0, topP: 1, topK: 0, minP: 0, seed: undefined, maxNewTokens: 0 },
      ...{ stopTokenIds: [], stopStrings: [], skipSpecialTokens: true },
      ...{ frequencyPenalty: 0, presencePenalty: 0, repetitionPenalty: 1 },
      ...{ minNewTokens: 0, maskedStopIds: [], biases: [] },
    },
    n: 1,
    stream: false,
    streamInterval: 1,
    outputLogprobs: true,
    topLogprobs: Math.min(HEAD, vocabulary),
    logprobIds: [],
    logprobStart: prompt.length,
    hiddenStates: false,
    detailsInComplete: true,
    bytesPerToken: 0,
    promptBytes: 0,
    inputEmbeds: undefined,
    constraint: undefined,
    rank: undefined,
    priority: 0,
  };
}
