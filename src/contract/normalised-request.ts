/** What the contract needs to know of the model that is served. */
export interface ModelLimits {
  readonly vocabSize: number;
  /** Tokens of prompt and output together. */
  readonly contextLength: number;
  /** Added to every request's stop ids, unless it ignores EOS. */
  readonly eosTokenIds: readonly number[];
  /** Values of one input embedding; undefined where nobody needs to know. */
  readonly hiddenSize?: number;
  /** KV slots of the largest node, in tokens; undefined while no node is known. */
  readonly poolTokens?: number;
  /** Number of ranks the operator fixed; undefined where any number of nodes may come. */
  readonly ranks?: number;
  /** Whether a request's priority counts; false where unset. */
  readonly servesPriority?: boolean;
}

export interface NormalisedSampling {
  /** 0 is greedy. */
  readonly temperature: number;
  /** In (0, 1]. */
  readonly topP: number;
  /** 0 is all. */
  readonly topK: number;
  /** In [0, 1]. */
  readonly minP: number;
  /** The client's seed as an unsigned 64-bit number; undefined where it gave none. */
  readonly seed: bigint | undefined;
  /** Clipped to the context; 0 is prefill only. */
  readonly maxNewTokens: number;
  /** Without repeats, EOS included; empty with ignore_eos. */
  readonly stopTokenIds: readonly number[];
  readonly stopStrings: readonly string[];
  /** Of the text that stop strings are looked for in. */
  readonly skipSpecialTokens: boolean;
}

/** A GenerateRequest with defaults filled in and every value in its range. */
export interface NormalisedRequest {
  /** Opaque; empty is anonymous and never matches another. */
  readonly requestId: string;
  readonly inputIds: readonly number[];
  readonly sampling: NormalisedSampling;
  /** Samples to make. */
  readonly n: number;
  readonly stream: boolean;
  readonly outputLogprobs: boolean;
  /** 0 without `outputLogprobs`. */
  readonly topLogprobs: number;
  /** False where a streaming request's logprobs might not fit a message: then they go in chunks only. */
  readonly logprobsInComplete: boolean;
  /** The rank the client pinned. */
  readonly rank: number | undefined;
  /** Higher ones first; 0 unless the client gave one. In int32. */
  readonly priority: number;
}
