import type { NormalisedRequest } from '../contract/normalised-request.ts';
import { creditWindow } from './credit.ts';

/** Bytes of a number in a list. */
const NUMBER_BYTES = 8;

/**
 * Bytes that a request may hold at the relay until its stream is over, beside its output ids: what came with it, and
 * the most that may be told of its prompt and of its tokens before the client has read it.
 */
export function heldBytes(request: NormalisedRequest): number {
  const { inputEmbeds, constraint, promptBytes, bytesPerToken, sampling, n } = request;
  const ids = request.inputIds.length + sampling.stopTokenIds.length;
  const texts = sampling.stopStrings.reduce((length, text) => length + text.length, constraint?.text.length ?? 0);
  const came = NUMBER_BYTES * ids + texts + (inputEmbeds?.byteLength ?? 0);
  const told = request.outputLogprobs || request.hiddenStates;
  // A complete that tells all again, or alone, keeps it all.
  const kept = request.detailsInComplete ? sampling.maxNewTokens : creditWindow(request).tokens;
  const tokens = told ? n * Math.min(kept, sampling.maxNewTokens) : 0;
  return came + promptBytes + tokens * bytesPerToken;
}
