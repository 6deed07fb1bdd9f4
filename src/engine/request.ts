/** A request as the engine takes it: checked and with every default settled. */
export interface EngineRequest {
  /** The relay's own id of the job. */
  readonly jobId: bigint;
  readonly inputIds: readonly number[];
  readonly samples: readonly RequestedSample[];
  readonly sampling: RequestSampling;
  /** 0 is prefill only. */
  readonly maxNewTokens: number;
  /** EOS ids among them, unless they are to be ignored. */
  readonly stopTokenIds: readonly number[];
  readonly stopStrings: readonly string[];
  /** Special tokens add nothing to the text in which stop strings are looked for. */
  readonly skipSpecialTokens: boolean;
  /** Of use under the policy 'priority': a higher one is admitted first. */
  readonly priority: number;
  readonly outputLogprobs: boolean;
  readonly topLogprobs: number;
}

export interface RequestedSample {
  /** Number of the choice; part of the draw's key. */
  readonly index: number;
  /** Output tokens that may be made before the sequence is parked. */
  readonly credit: number;
  /** Output so far, made elsewhere: the sample goes on after it. */
  readonly emittedIds: readonly number[];
}

export interface RequestSampling {
  /** 0 is greedy. */
  readonly temperature: number;
  /** 0 is all. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** 64 bits. */
  readonly seed: bigint;
}
