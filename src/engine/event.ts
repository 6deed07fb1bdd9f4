import type { FailureCode } from '../contract/failure-codes.ts';

/** What happened to one sample, in order of happening. */
export type EngineEvent = InputLogprobsEvent | TokensEvent | FinishedEvent | FailedEvent;

interface SampleEvent {
  readonly jobId: bigint;
  readonly index: number;
}

/** Logprobs of consecutive prompt positions; of the request's first sample only, before its first token. */
export interface InputLogprobsEvent extends SampleEvent {
  readonly type: 'input-logprobs';
  /** The first of the positions. */
  readonly position: number;
  /** Undefined at position 0, which nothing comes before. */
  readonly logprobs: readonly (number | undefined)[];
  /** One per position where asked for; empty at position 0. */
  readonly topLogprobs: readonly TopLogprobs[];
  /** One per position where asked for, in the order of the request's `logprobIds`; empty at position 0. */
  readonly idLogprobs: readonly Float32Array[];
}

export interface TokensEvent extends SampleEvent {
  readonly type: 'tokens';
  /** Output tokens of the sample before these. */
  readonly offset: number;
  readonly ids: readonly number[];
  readonly cachedTokens: number;
  /** One per id where asked for. */
  readonly logprobs: readonly number[];
  readonly topLogprobs: readonly TopLogprobs[];
  /** One per id where asked for, in the order of the request's `logprobIds`. */
  readonly idLogprobs: readonly Float32Array[];
  /** One per id where asked for: the hidden state that the id was drawn from. */
  readonly hiddenStates: readonly Float32Array[];
}

/** Best first. */
export interface TopLogprobs {
  readonly ids: Uint32Array;
  readonly logprobs: Float32Array;
}

export type FinishReason = 'stop' | 'length' | 'abort';

export interface FinishedEvent extends SampleEvent {
  readonly type: 'finished';
  readonly reason: FinishReason;
  /** The stop token, or the stop string, that ended it. */
  readonly matched: number | string | undefined;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  /** Of the last prompt position, where asked for and no token was made. */
  readonly hiddenState?: Float32Array;
}

export interface FailedEvent extends SampleEvent {
  readonly type: 'failed';
  readonly code: FailureCode;
  readonly message: string;
}
