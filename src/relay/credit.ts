import type { NormalisedRequest } from '../contract/normalised-request.ts';

/** Output tokens of a sample that may be on their way to the client, unread. */
export const CREDIT_TOKENS = 64;

/** Bytes of a request's tokens, and of what is told of each, that may be on their way to the client, unread. */
const CREDIT_BYTES = 32 * 1024 * 1024;

export interface CreditWindow {
  /** Output tokens of a sample that may be unread. */
  readonly tokens: number;
  /** Credits go out in portions of at least this many tokens. */
  readonly portion: number;
}

/**
 * How far a sample may run ahead of its client: fewer tokens where much is told of each. Tokens that wait for their
 * chunk to be whole can't be read, so they come on top: a sample that they parked would never go on.
 */
export function creditWindow({ bytesPerToken, n, streamInterval }: NormalisedRequest): CreditWindow {
  const affordable = Math.floor(CREDIT_BYTES / (n * Math.max(1, bytesPerToken)));
  const ahead = Math.max(2, Math.min(CREDIT_TOKENS, affordable));
  return { tokens: ahead + streamInterval - 1, portion: Math.ceil(ahead / 2) };
}
