import type { NormalisedConstraint } from './constraint.ts';

/** What the contract needs to know of the model that is served. */
export interface ModelLimits {
  readonly vocabSize: number;
  /** Tokens of prompt and output together. */
  readonly contextLength: number;
  /** Added to every request's stop ids, unless it ignores EOS. */
  readonly eosTokenIds: readonly number[];
  /** Values of one hidden state, and of one input embedding. */
  readonly hiddenSize: number;
  /** KV slots of the largest node, in tokens; undefined while no node is known. */
  readonly poolTokens?: number;
  /** Number of ranks the operator fixed; undefined where any number of nodes may come. */
  readonly ranks?: number;
  /** The id of a LoRA adapter that requests may name by its id or name; unset: none are served. */
  readonly adapterId?: ((idOrName: string) => string | undefined) | undefined;
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
  /** In [−2, 2], over output tokens only, as the two after it. */
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  /** In (0, 2]; 1 is none. */
  readonly repetitionPenalty: number;
  /** At most `maxNewTokens`. */
  readonly minNewTokens: number;
  /** What can't be drawn before `minNewTokens`: stop ids and EOS, with ignore_eos too. Empty where that is 0. */
  readonly maskedStopIds: readonly number[];
  /** Added to the logits; ids differ. */
  readonly biases: readonly { readonly id: number; readonly bias: number }[];
}

/** One text that a vector is made of. */
export interface EmbedInput {
  readonly ids: readonly number[];
  /** As many as `ids`; undefined is all 0. */
  readonly typeIds: readonly number[] | undefined;
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
  /** Tokens of one chunk, at most `maxNewTokens` or 1; what is left at the end makes a smaller one. */
  readonly streamInterval: number;
  readonly outputLogprobs: boolean;
  /** 0 without `outputLogprobs`. */
  readonly topLogprobs: number;
  /** Ids whose logprobs are told at each position whose logprob is told; empty without `outputLogprobs`. */
  readonly logprobIds: readonly number[];
  /** The first prompt position whose logprob is told; undefined where none is. */
  readonly logprobStart: number | undefined;
  /** Tell the hidden state that each output token is drawn from; that of the last prompt position without any. */
  readonly hiddenStates: boolean;
  /** False where a streaming request's logprobs and hidden states might not fit one message: they go in chunks only. */
  readonly detailsInComplete: boolean;
  /** Upper bound of the bytes that one output position takes in a message. */
  readonly bytesPerToken: number;
  /** Upper bound of the bytes that the prompt's logprobs, or the inputs' vectors, take in their message; 0 where none are told. */
  readonly promptBytes: number;
  /** In place of the model's own embeddings of `inputIds`, as many rows of the hidden size. */
  readonly inputEmbeds: Float32Array | undefined;
  /** What the output must match. */
  readonly constraint: NormalisedConstraint | undefined;
  /** The rank the client pinned. */
  readonly rank: number | undefined;
  /** Higher ones first; 0 unless the client gave one. In int32. */
  readonly priority: number;
  /** The LoRA adapter that it is made with. */
  readonly loraId?: string;
  /** Set: an EmbedRequest. Each is a sample that makes no token, and `inputIds` are all of theirs, one after the other. */
  readonly embedInputs?: readonly EmbedInput[];
}
