/** Tokens of KV in one block. */
export const BLOCK_TOKENS = 16;

/** One sequence's rows in a step: consecutive positions from `startPosition` on. */
export interface StepSequence {
  /** Index of the sequence's state on the GPU (the id sampled last), in [0, maxSequences). */
  readonly slot: number;
  /** Ids of the rows; or 'slot': one row, whose id is the one that `slot` sampled last. */
  readonly tokens: ArrayLike<number> | 'slot';
  readonly startPosition: number;
  /** Block ids of positions 0 … startPosition + rows − 1; at least ceil(that many / BLOCK_TOKENS). */
  readonly blockTable: ArrayLike<number>;
}

/** How to draw one id. Values are normalised: no proto zeros, `topK` 0 is all. */
export interface SamplingParams {
  /** 0 is greedy. */
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** The draw's key, with `sampleIndex` and the position of the output token. 64 bits. */
  readonly seed: bigint;
  readonly sampleIndex: number;
}

/** A row whose logits are wanted, and what is made of them. */
export interface LogitsRow {
  /** Index of the row in the step, all sequences' rows counted in order. */
  readonly row: number;
  readonly slot: number;
  readonly sampling: SamplingParams;
  /** Output tokens before this one: the counter of the draw. */
  readonly outputPosition: number;
  /** Natural log, whole vocabulary, after temperature; greedy uses temperature 1. */
  readonly logprob: boolean;
  /** How many of the best logprobs to return. */
  readonly topLogprobs: number;
}

/** One block's KV of every layer. */
export interface BlockCopy {
  readonly from: number;
  readonly to: number;
}

export interface StepBatch {
  readonly sequences: readonly StepSequence[];
  /** Ascending by `row`. */
  readonly logits: readonly LogitsRow[];
  /** Made before the first row is computed. Targets differ, and no target is a source. */
  readonly copies?: readonly BlockCopy[];
  /**
   * So many decode steps at once (default 1), for one readback: each sequence has one row, whose logits are wanted;
   * step i computes the position `startPosition` + i from the id drawn by step i − 1. Block tables cover them all.
   */
  readonly repeat?: number;
}

/** What a step returns for one LogitsRow. */
export interface SampledRow {
  readonly id: number;
  /** Set where asked for. */
  readonly logprob?: number;
  /** Best first; ties by ascending id. */
  readonly top?: { readonly ids: Uint32Array; readonly logprobs: Float32Array };
  /** The logits held a NaN or an infinity: the id means nothing. */
  readonly nonFinite: boolean;
}

export interface RunnerLimits {
  /** Rows of one step. */
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly maxLogitsRows: number;
  readonly maxTopLogprobs: number;
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Blocks of the KV pool. */
  readonly blocks: number;
}

/** Drives a model one step at a time over a KV pool of its own. */
export interface Runner {
  readonly limits: RunnerLimits;
  readonly weightBytes: number;
  readonly kvBytes: number;
  /** Bytes of all buffers alive, weights and KV included. */
  readonly allocatedBytes: number;
  /**
   * Encodes and submits a step at once; the promise gives one SampledRow for each of `batch.logits`, in order, and
   * with `repeat` so many times, step by step.
   * A second call may come before the first one's promise settles. Rejects when the device is lost.
   */
  step(batch: StepBatch): Promise<SampledRow[]>;
  /** Frees every buffer. */
  destroy(): void;
}
