import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { Gpu } from '../gpu/gpu.ts';
import type { KernelChoices } from '../gpu/kernel-choices.ts';
import { stepWords } from '../gpu/pack-step.ts';
import type { PoolKind } from '../gpu/pool.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { rowWords } from '../gpu/row-words.ts';
import { compileKernels } from './compile-kernels.ts';
import { Encoder } from './encoder.ts';
import type { EncoderConfig } from './encoder-config.ts';
import { encoderKernels } from './encoder-kernels.ts';
import { type EncoderSizes, encoderLimits, kvBytes } from './encoder-limits.ts';
import type { EncoderNames } from './encoder-names.ts';
import { EncoderRunner } from './encoder-runner.ts';
import type { StoredDense } from './encoder-tensors.ts';
import { checkUnused } from './encoder-unused.ts';
import { loadEncoderWeights } from './encoder-weights.ts';
import { encoderOf } from './encoders.ts';
import { BLOCK_TOKENS } from './runner.ts';
import { VectorSteps } from './vector-steps.ts';

export interface EncoderOptions extends EncoderSizes {
  /** How hidden states become a vector; a classifier takes the first position. */
  readonly pooling: PoolKind;
  /** Vectors are divided by their length. */
  readonly normalised: boolean;
  /** What the pooled vector goes through; a classifier has none. */
  readonly dense?: readonly StoredDense[] | undefined;
  readonly quantisation?: Quantisation | undefined;
  readonly bindingLimit?: number | undefined;
  readonly choices?: KernelChoices | undefined;
  /** Leave kernels that others can stand in for to compileLate. */
  readonly late?: boolean | undefined;
  /** Bytes of tensors read so far, of all that will be. */
  readonly onProgress?: (loadedBytes: number, totalBytes: number) => void;
}

/**
 * Loads an encoder onto `device`. Everything allocated is freed again if it fails. Rejects with CheckpointError (bad file or
 * config), AllocationError (no room, with sizes) or RangeError (options).
 */
export async function loadEncoder(
  device: GPUDevice,
  checkpoint: Checkpoint,
  modelConfig: ModelConfig,
  options: EncoderOptions,
): Promise<EncoderRunner> {
  const family = encoderOf(modelConfig);
  const config = family.readConfig(modelConfig);
  const names = family.tensorNames(config, (name) => checkpoint.tensors.has(name));
  checkUnused(checkpoint, names, config);
  const gpu = new Gpu(device, options);
  try {
    const needs = encoderKernels(checkpoint, modelConfig, { ...options, bindingLimit: gpu.bindingLimit });
    // Kernels compile while weights are read.
    const [runner] = await Promise.all([load(gpu, checkpoint, config, names, options), compileKernels(gpu, needs)]);
    return runner;
  } catch (error) {
    gpu.destroy();
    throw error;
  }
}

async function load(
  gpu: Gpu,
  checkpoint: Checkpoint,
  config: EncoderConfig,
  names: EncoderNames,
  options: EncoderOptions,
): Promise<EncoderRunner> {
  const limits = encoderLimits(config, options, gpu.bindingLimit);
  const { maxSequences } = limits;
  const maxRows = Math.max(limits.maxRows, limits.longest);
  const maxTableBlocks = Math.ceil(maxRows / BLOCK_TOKENS);
  const words = stepWords({
    ...{ maxRows, maxSequences, maxTableBlocks: maxTableBlocks + 1 },
    ...{ maxLogitsRows: 0, maxCopies: 0, splitItems: 0 },
  });
  const [step, rows, weights] = await Promise.all([
    gpu.storage('step', words * 4),
    gpu.storage('rows', maxRows * 16),
    loadEncoderWeights(
      gpu,
      checkpoint,
      config,
      names,
      options.onProgress,
      options.quantisation,
      config.classifier ? [] : options.dense,
    ),
  ]);
  const encoder = await Encoder.create(gpu, config, weights, options.pooling, {
    ...{ step, rows, maxRows, maxSequences },
    kvBytes: kvBytes(config, maxRows, maxSequences),
  });
  const dimension = weights.head.at(-1)?.matrix.rows ?? config.hiddenSize;
  const steps = await VectorSteps.create(gpu, {
    ...{ source: encoder.output, stride: encoder.outputStride, dimension, maxRows: maxSequences },
    normalised: options.normalised && !config.classifier,
  });
  return new EncoderRunner({
    ...{ gpu, encoder, steps, dimension, limits, step, rows },
    kind: config.classifier ? 'classifier' : 'embedding',
    hiddenStride: 4 * rowWords(config.hiddenSize),
    positionPad: config.positionPad,
    weightBytes: weights.bytes,
  });
}
