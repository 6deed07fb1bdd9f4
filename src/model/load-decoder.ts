import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { AdjustLogits } from '../gpu/adjust-logits.ts';
import { splitItemBytes } from '../gpu/attention.ts';
import { Gpu } from '../gpu/gpu.ts';
import type { KernelChoices } from '../gpu/kernel-choices.ts';
import { stepWords } from '../gpu/pack-step.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { Sampler } from '../gpu/sampler.ts';
import { StepAdvance } from '../gpu/step-advance.ts';
import { SPLIT_KEYS } from '../gpu/step-layout.ts';
import { allLayerSites } from './adapter-sites.ts';
import type { DecoderNames } from './architecture.ts';
import { compileKernels } from './compile-kernels.ts';
import { Decoder } from './decoder.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { decoderKernels } from './decoder-kernels.ts';
import { loadDecoderWeights } from './decoder-weights.ts';
import { anyAttention, openDecoder } from './describe-decoder.ts';
import { GpuRunner } from './gpu-runner.ts';
import {
  blockBytes,
  type KvRequest,
  kvGroupLimits,
  kvGroupOf,
  kvGroups,
  poolBlocks,
  servedPositions,
  stepCapacity,
} from './kv-layout.ts';
import type { KvGroupLimits, RunnerLimits } from './runner.ts';
import { SlotBuffers } from './slot-buffers.ts';
import { maxCountedIds } from './slot-traits.ts';

/** Scratch that attention's split form may take. */
const SPLIT_SCRATCH_BYTES = 16 << 20;

/** Top logprobs of one step, all rows together, unless one row may have more. */
const MAX_TOP = 1 << 15;

/** Biases of one slot. */
const MAX_BIASES = 4096;

/** Ids of one slot whose logprobs are told. */
const MAX_LOGPROB_IDS = 1024;

/** Rows of one step whose hidden states are told. */
const MAX_HIDDEN_ROWS = 64;

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

/**
 * Loads a decoder onto `device` with a KV pool of its own. Everything allocated is freed again if it fails.
 * Rejects with CheckpointError (bad file or config), AllocationError (no room, with sizes) or RangeError (options).
 */
export async function loadDecoder(
  device: GPUDevice,
  stored: Checkpoint,
  modelConfig: ModelConfig,
  options: LoadOptions,
): Promise<GpuRunner> {
  const { config, names, checkpoint } = openDecoder(stored, modelConfig);
  const gpu = new Gpu(device, options);
  try {
    const needs = decoderKernels(stored, modelConfig, { ...options, bindingLimit: gpu.bindingLimit });
    const start = performance.now();
    // Kernels compile while weights are read: both take seconds, on cores of their own.
    const [runner] = await Promise.all([load(gpu, checkpoint, config, names, options), compileKernels(gpu, needs)]);
    performance.measure('load model', { start });
    return runner;
  } catch (error) {
    gpu.destroy();
    throw error;
  }
}

async function load(
  gpu: Gpu,
  checkpoint: Checkpoint,
  config: DecoderConfig,
  names: DecoderNames,
  options: LoadOptions,
): Promise<GpuRunner> {
  const groups = kvGroups(config, Math.min(options.contextLength ?? config.contextLength, config.contextLength));
  const blocks = poolBlocks(groups, options, gpu.bindingLimit);
  const limits = runnerLimits(config, options, kvGroupLimits(groups, blocks));
  const { maxRows, maxLogitsRows } = limits;
  const positions = servedPositions(limits.kvGroups, limits.contextLength);
  const attention = anyAttention(config);
  const splitItems = Math.max(
    1,
    Math.min(
      Math.floor(SPLIT_SCRATCH_BYTES / splitItemBytes(attention)),
      limits.maxSequences * Math.ceil(positions / SPLIT_KEYS),
    ),
  );
  const start = performance.now();
  const [kv, step, attentionParts, slots, weights] = await Promise.all([
    Promise.all(
      config.layers.map(async (_, layer) => {
        const group = kvGroupOf(groups, layer);
        return { group, buffer: await gpu.storage(`kv ${layer}`, blocks[group]! * blockBytes(groups[group]!)) };
      }),
    ),
    gpu.storage('step', stepWords({ ...stepCapacity(limits), splitItems }) * 4),
    gpu.storage('attention parts', splitItems * splitItemBytes(attention)),
    SlotBuffers.create(gpu, limits),
    loadDecoderWeights(
      gpu,
      checkpoint,
      config,
      names,
      { from: 0, to: config.layers.length },
      options.onProgress,
      options.quantisation,
    ),
  ]);
  performance.measure('load weights', { start });
  const model = await Decoder.create(gpu, config, weights, {
    step,
    lastIds: slots.lastIds,
    kv,
    maxRows,
    maxLogitsRows,
    positions,
    attentionParts,
    adapters: {
      sites: allLayerSites(config, names),
      most: limits.maxAdapters ?? 0,
      maxRank: limits.maxAdapterRank ?? 0,
    },
  });
  const { tileRows, logits } = model;
  const vocabulary = config.vocabSize;
  const { maxTop, maxLogprobIds, maxBiases } = limits;
  const sampler = await Sampler.create(
    gpu,
    { vocabulary, tileRows, maxLogitsRows, maxTop, maxIds: maxTop, maxLogprobIds },
    { step, logits, lastIds: slots.lastIds, slotIds: slots.slotIds },
  );
  const adjust = await AdjustLogits.create(
    gpu,
    { vocabulary, tileRows, maxLogitsRows, maxCounted: maxCountedIds(limits), maxBiases },
    { ...slots, step, logits },
  );
  const kvBytes = kv.reduce((sum, { buffer }) => sum + buffer.size, 0);
  const advance = await StepAdvance.create(gpu, step);
  return GpuRunner.create({
    gpu,
    model,
    sampler,
    adjust,
    slots,
    advance,
    step,
    limits,
    weightBytes: weights.bytes,
    kvBytes,
    splitItems: () => (model.splits ? splitItems : 0),
  });
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
