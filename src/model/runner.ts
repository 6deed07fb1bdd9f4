import type { SearchedRow } from '../gpu/sampler.ts';
import type { AdapterFiles } from './read-adapter.ts';
import type { ProfileOptions, StepProfile } from './step-profile.ts';

export { BLOCK_TOKENS } from '../gpu/visible-blocks.ts';

/** Stands in a block table where a block was given back, behind its group's window. */
export const NO_BLOCK = -1;

/** Ids of one draft. */
export const MAX_DRAFT = 16;

/** One sequence's rows in a step: consecutive positions from `startPosition` on. */
export interface StepSequence {
  /** Index of the sequence's state on the GPU (the id sampled last), in [0, maxSequences). */
  readonly slot: number;
  /**
   * Ids of the rows; or 'slot': one row, whose id is the one that `slot` sampled last; or embeddings in place of the
   * model's own, [rows, hiddenSize] f32.
   */
  readonly tokens: ArrayLike<number> | 'slot' | { readonly embeddings: Float32Array };
  readonly startPosition: number;
  /**
   * Block ids of positions 0 … startPosition + rows − 1, of the first KV group; at least ceil(that many /
   * BLOCK_TOKENS). Entries behind the group's window are not read, and may be NO_BLOCK.
   */
  readonly blockTable: ArrayLike<number>;
  /** Tables like it of the other KV groups, in order. */
  readonly moreTables?: readonly ArrayLike<number>[];
  /** The adapter slot whose adapter its rows have, in [0, limits.maxAdapters); absent: the model as it is. */
  readonly adapter?: number;
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

/**
 * What a slot's draws are adjusted by, from here until the slot's next start. A row that is drawn for a slot sees, in
 * this order: penalties over the output so far, the row's mask, the stop ids' mask, biases (gateway-contract §5).
 */
export interface SlotStart {
  readonly slot: number;
  /** Output ids so far, in any order: what penalties count. Ids that the slot draws from here on add themselves. */
  readonly outputIds: ArrayLike<number>;
  /** 0 is none. */
  readonly frequencyPenalty: number;
  /** 0 is none. */
  readonly presencePenalty: number;
  /** 1 is none. */
  readonly repetitionPenalty: number;
  /** Ids that can't be drawn while `outputPosition` is below `minNewTokens`. */
  readonly stopIds: ArrayLike<number>;
  readonly minNewTokens: number;
  /** Added to the logits; ids differ. At most `limits.maxBiases`. */
  readonly biases: readonly { readonly id: number; readonly bias: number }[];
  /** Ids whose logprobs are told where a row asks with `idLogprobs`. At most `limits.maxLogprobIds`. */
  readonly logprobIds: ArrayLike<number>;
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
  /** How many of the best logprobs to return. All rows' together are at most `limits.maxTop` a step. */
  readonly topLogprobs: number;
  /** Return the logprobs of the slot's `logprobIds`. All rows' together are at most `limits.maxTop` a step too. */
  readonly idLogprobs?: boolean;
  /**
   * Nothing is drawn: the row tells the logprobs of the logits as the model made them, at temperature 1, and `logprob`
   * is this id's. The slot keeps what it had.
   */
  readonly scored?: number;
  /**
   * Drawn only once `drawMasked` has brought the row's mask; at most `limits.maxSequences` rows of a step. Not in a repeated
   * step. But for rows of a draft, its slot draws no other row in the step; nor does one with penalties.
   */
  readonly masked?: boolean;
  /**
   * The row is of a draft: so many of its sequence's ids, the row's own the last of them, are guesses at what is drawn, in
   * [0, MAX_DRAFT]; penalties count them after the output. A draft's rows follow each other from 0 on, and are all that their
   * slot draws in the step. The slot counts none of what they draw: with penalties it has to be started in the
   * same step, and again before it draws any more. Not in a repeated step.
   */
  readonly draft?: number;
  /** Return the row's hidden state, [hiddenSize] f32, after the final norm. At most `limits.maxHiddenRows` a step. */
  readonly hidden?: boolean;
}

/** One block's KV of every layer: of the first KV group's. */
export interface BlockCopy {
  readonly from: number;
  readonly to: number;
  /** And of the others', in order. */
  readonly more?: readonly { readonly from: number; readonly to: number }[];
}

export interface StepBatch {
  readonly sequences: readonly StepSequence[];
  /** Ascending by `row`. */
  readonly logits: readonly LogitsRow[];
  /** Made before the first row is computed. Targets differ, and no target is a source. */
  readonly copies?: readonly BlockCopy[];
  /** Slots that another sequence takes over; made before the first row is computed. */
  readonly starts?: readonly SlotStart[];
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
  /** In the order of the slot's `logprobIds`, where asked for. */
  readonly idLogprobs?: Float32Array;
  /** [hiddenSize], where asked for. */
  readonly hidden?: Float32Array;
  /** The logits held a NaN or an infinity, or every id was masked: the id means nothing. */
  readonly nonFinite: boolean;
}

/** Layers that share a pool of KV blocks, and a block table a sequence. */
export interface KvGroupLimits {
  /** Of the pool. */
  readonly blocks: number;
  /** Keys a position sees, itself included; absent: all before it. */
  readonly window?: number;
}

export interface RunnerLimits {
  /** Rows of one step. */
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly maxLogitsRows: number;
  /** Of one row. */
  readonly maxTopLogprobs: number;
  /** Top logprobs of one step, all rows together; and likewise logprobs of slots' ids. */
  readonly maxTop: number;
  /** Biases of one slot. */
  readonly maxBiases: number;
  /** Ids of one slot whose logprobs are told. */
  readonly maxLogprobIds: number;
  /** Rows of one step whose hidden states are told. */
  readonly maxHiddenRows: number;
  readonly hiddenSize: number;
  readonly contextLength: number;
  readonly vocabSize: number;
  /** One or more; the first sees most: it has no window where any has none. */
  readonly kvGroups: readonly KvGroupLimits[];
  /** Adapter slots; 0 or absent: no adapters are taken. */
  readonly maxAdapters?: number;
  /** Ranks that an adapter's updates may have. */
  readonly maxAdapterRank?: number;
}

/** Drives a model one step at a time over KV pools of its own. */
export interface Runner {
  readonly limits: RunnerLimits;
  readonly weightBytes: number;
  readonly kvBytes: number;
  /** Bytes of all buffers alive, weights and KV included. */
  readonly allocatedBytes: number;
  /**
   * Encodes and submits a step at once; the promise gives one SampledRow for each of `batch.logits`, in order, and
   * with `repeat` so many times, step by step.
   * A second call may come before the first one's promise settles, but not before `drawMasked` where the first one has
   * masked rows. Rejects when the device is lost.
   */
  step(batch: StepBatch): Promise<SampledRow[]>;
  /**
   * Draws the masked rows of the step submitted last, in a submit of its own: for each, in order, a bit per id, set where
   * it may be drawn, least significant first, [ceil(vocabSize / 32)]; undefined: every id may. The step's promise
   * settles after that. Throws StepError where the masks are not one for each masked row.
   */
  drawMasked(masks: readonly (Uint32Array | undefined)[]): void;
  /**
   * Settles once the runner can draw rows of this kind as it always will; undefined: it can. Until then no step may have
   * such a row. Absent: nothing is ever awaited.
   */
  awaits?(row: SearchedRow): Promise<void> | undefined;
  /**
   * Times each kernel of `batch` by itself, repeated, without any of its results; no step may be under way, and none
   * comes before the promise settles. Slots stay as they were. KV of the batch's rows and blocks that it copies into hold anything
   * then: `batch` has to be the next step. Absent: there are no kernels. Rejects when the device is lost.
   */
  profile?(batch: StepBatch, options?: ProfileOptions): Promise<StepProfile>;
  /**
   * Puts a LoRA adapter into `slot`, in [0, limits.maxAdapters), in place of the one there, which no step under way may use.
   * Rejects with CheckpointError naming what isn't served, or AllocationError; the slot is as it was then. Absent: no
   * adapters are taken.
   */
  loadAdapter?(slot: number, files: AdapterFiles): Promise<AdapterTraits>;
  /** Frees every buffer. */
  destroy(): void;
}

export interface AdapterTraits {
  /** The largest of its updates'. */
  readonly rank: number;
}
