/** What happened to one sample, in order of happening. */
export type EngineEvent = TokensEvent | FinishedEvent | FailedEvent;

interface SampleEvent {
  readonly jobId: bigint;
  readonly index: number;
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
}

export interface FailedEvent extends SampleEvent {
  readonly type: 'failed';
  readonly code: FailureCode;
  readonly message: string;
}

/** Names of the gRPC statuses that an engine failure can have. */
export type FailureCode = 'invalid_argument' | 'resource_exhausted' | 'internal' | 'unavailable';
