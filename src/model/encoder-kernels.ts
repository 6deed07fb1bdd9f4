import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { type KernelNeeds, type ProductNeed, productKey } from '../gpu/kernel-needs.ts';
import type { LinearForm } from '../gpu/linear-variant.ts';
import { planParts } from '../gpu/plan-parts.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import type { AnySource } from '../gpu/weight-matrix.ts';
import { denseTensors, encoderSources, encoderTensors, type StoredDense } from './encoder-tensors.ts';
import { encoderOf } from './encoders.ts';

/** What becomes of an encoder's products. */
const STORE: LinearForm = { finish: 'store', normed: false };
const ADD: LinearForm = { finish: 'add', normed: false };

export interface EncoderKernelsOptions {
  readonly quantisation?: Quantisation | undefined;
  readonly bindingLimit: number;
  /** See EncoderOptions. */
  readonly dense?: readonly StoredDense[] | undefined;
}

/**
 * Which kernels an encoder's steps run, from the names, shapes and types of its tensors alone. Throws CheckpointError, or
 * RangeError where a tile is over the limit.
 */
export function encoderKernels(
  checkpoint: Checkpoint,
  modelConfig: ModelConfig,
  { quantisation, bindingLimit, dense = [] }: EncoderKernelsOptions,
): KernelNeeds {
  const family = encoderOf(modelConfig);
  const config = family.readConfig(modelConfig);
  const names = family.tensorNames(config, (name) => checkpoint.tensors.has(name));
  const { hiddenSize, intermediateSize, heads, headSize } = config;
  const tensors = encoderTensors(checkpoint, undefined, quantisation);
  const products = new Map<string, ProductNeed>();
  const add = (columns: number, sources: readonly AnySource[], form: LinearForm) => {
    for (const { tiles, format } of planParts(columns, sources, bindingLimit)) {
      const part = { tiles, columns, format };
      const key = productKey(part, form);
      products.set(key, { part, form, uses: (products.get(key)?.uses ?? 0) + 1 });
    }
  };
  for (let layer = 0; layer < config.layers; layer++) {
    const { qkv, attentionOutput, up, down } = encoderSources(tensors, config, names.layer(layer));
    add(hiddenSize, qkv, STORE);
    add(hiddenSize, attentionOutput, ADD);
    add(hiddenSize, up, STORE);
    add(intermediateSize, down, ADD);
  }
  if (names.classifier) {
    const { dense, output } = names.classifier;
    add(hiddenSize, [tensors.matrix(dense.weight, hiddenSize, hiddenSize)], STORE);
    add(hiddenSize, [tensors.matrix(output.weight, config.classifier!.labels.length, hiddenSize)], STORE);
  }
  for (const stored of config.classifier ? [] : dense) add(stored.module.inputs, [denseTensors(stored).matrix], STORE);
  return {
    products: [...products.values()],
    attention: { heads, kvHeads: heads, headSize, kvFormat: 'f32', bidirectional: true },
    embeddings: [{ format: tensors.matrix(names.words, config.vocabSize, hiddenSize).format, of: 'encoder rows' }],
    vocabulary: undefined,
    rows: ['layer-norm', 'rope', 'activate-rows', 'pool'],
  };
}
