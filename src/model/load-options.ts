import type { KernelChoices } from '../gpu/kernel-choices.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import type { DecoderConfig } from './decoder-config.ts';
import type { KvRequest } from './kv-layout.ts';
import type { KvGroupLimits, RunnerLimits } from './runner.ts';

/** Top logprobs of one step, all rows together, unless one row may have more. */
const MAX_TOP = 1 << 15;

/** Biases of one slot. */
const MAX_BIASES = 4096;

/** Ids of one slot whose logprobs are told. */
const MAX_LOGPROB_IDS = 1024;

/** Rows of one step whose hidden states are told. */
const MAX_HIDDEN_ROWS = 64;

/** How a decoder is loaded. */
export interface LoadOptions extends KvRequest {
  /** Rows of one step. */
  readonly maxRows: number;
  readonly maxSequences: number;
  /** Logits rows of one step; default: every row can be one. */
  readonly maxLogitsRows?: number;
  /** Of one row; default: the vocabulary. */
  readonly maxTopLogprobs?: number;
  /** Shortens the model's own. */
  readonly contextLength?: number;
  /** How matrices of floats are quantised while they load; default: not at all. */
  readonly quantisation?: Quantisation;
  /** Slots for LoRA adapters, and the ranks that their updates may have; default: none. */
  readonly adapters?: { readonly most: number; readonly maxRank: number } | undefined;
  /** Bytes a binding may have, below the device's limit; for tests. */
  readonly bindingLimit?: number;
  /** Which variants of kernels to use; default: what is taken where no tuner has measured. */
  readonly choices?: KernelChoices;
  /** Leave kernels that others can stand in for to GpuRunner.compileLate. */
  readonly late?: boolean;
  /** Bytes of tensors read so far, of all that will be. */
  readonly onProgress?: (loadedBytes: number, totalBytes: number) => void;
}

/** The limits that options and model give. Throws RangeError naming the option. */
export function runnerLimits(
  config: DecoderConfig,
  options: Omit<LoadOptions, keyof KvRequest>,
  kvGroups: readonly KvGroupLimits[],
): RunnerLimits {
  const limits = {
    maxRows: options.maxRows,
    maxSequences: options.maxSequences,
    maxLogitsRows: options.maxLogitsRows ?? Math.max(options.maxRows, options.maxSequences),
    maxTopLogprobs: Math.min(options.maxTopLogprobs ?? config.vocabSize, config.vocabSize),
    contextLength: Math.min(options.contextLength ?? config.contextLength, config.contextLength),
  };
  for (const [name, value] of Object.entries(limits)) {
    const least = name === 'maxTopLogprobs' ? 0 : 1;
    if (!Number.isSafeInteger(value) || value < least) {
      throw new RangeError(`${name} must be an integer of at least ${least}, got ${value}`);
    }
  }
  const { vocabSize, hiddenSize } = config;
  const { most = 0, maxRank = 0 } = options.adapters ?? {};
  if (!(Number.isSafeInteger(most) && most >= 0 && Number.isSafeInteger(maxRank) && (most === 0 || maxRank >= 1))) {
    throw new RangeError(`adapters must be counts, got ${most} of rank ${maxRank}`);
  }
  return {
    ...limits,
    maxAdapters: most,
    maxAdapterRank: maxRank,
    // One row may have all there is; small vocabularies leave room for many rows.
    maxTop: Math.max(limits.maxTopLogprobs, MAX_TOP),
    maxBiases: Math.min(vocabSize, MAX_BIASES),
    maxLogprobIds: Math.min(vocabSize, MAX_LOGPROB_IDS),
    maxHiddenRows: Math.min(limits.maxLogitsRows, MAX_HIDDEN_ROWS),
    hiddenSize,
    vocabSize,
    kvGroups,
  };
}
