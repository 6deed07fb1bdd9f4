import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { type KernelNeeds, type ProductNeed, productKey } from '../gpu/kernel-needs.ts';
import { MATVEC_COLUMNS } from '../gpu/linear-choice.ts';
import type { LinearForm } from '../gpu/linear-variant.ts';
import { planPairedParts, planParts } from '../gpu/plan-parts.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import type { AnySource } from '../gpu/weight-matrix.ts';
import { DecoderTensors, EMBEDDING_NAME, HEAD_NAME, layerSources } from './decoder-tensors.ts';
import { llamaConfig } from './llama-config.ts';

export interface DecoderKernelsOptions {
  readonly quantisation?: Quantisation | undefined;
  /** Bytes that a storage binding may have. */
  readonly bindingLimit: number;
}

/**
 * Which kernels a Llama's steps run, from the names, shapes and types of its tensors alone: loadDecoder asks for the same
 * ones, unless scales turn out not to be halves. Throws CheckpointError, or RangeError where a tile is over the limit.
 */
export function decoderKernels(
  checkpoint: Checkpoint,
  modelConfig: ModelConfig,
  { quantisation, bindingLimit }: DecoderKernelsOptions,
): KernelNeeds {
  const config = llamaConfig(modelConfig);
  const { hiddenSize, intermediateSize, heads, kvHeads, headSize, vocabSize } = config;
  const tensors = new DecoderTensors(checkpoint, undefined, quantisation);
  const products = new Map<string, ProductNeed>();
  const add = (columns: number, sources: readonly AnySource[], form: LinearForm, half?: number, most?: number) => {
    const paired = half === undefined ? undefined : planPairedParts(columns, sources, bindingLimit, half);
    const own = half === undefined || paired ? form : { ...form, finish: 'store' as const };
    for (const { tiles, format } of paired ?? planParts(columns, sources, bindingLimit)) {
      const part = { tiles, columns, format };
      const key = productKey(part, own);
      const uses = (products.get(key)?.uses ?? 0) + 1;
      products.set(key, { part, form: own, uses, ...(most === undefined ? {} : { mostColumns: most }) });
    }
    return paired !== undefined;
  };
  let rope = false;
  let swiglu = false;
  for (let layer = 0; layer < config.layers; layer++) {
    const sources = layerSources(tensors, config, layer);
    rope = !add(hiddenSize, sources.qkv, { finish: 'rotate', normed: true }, headSize / 2) || rope;
    add(heads * headSize, sources.attentionOutput, { finish: 'emit', normed: false });
    swiglu = !add(hiddenSize, sources.gateUp, { finish: 'gate', normed: true }, intermediateSize) || swiglu;
    add(intermediateSize, sources.down, { finish: 'emit', normed: false });
  }
  const embedding = tensors.matrix(EMBEDDING_NAME, vocabSize, hiddenSize);
  const head = config.tiedHead ? embedding : tensors.matrix(HEAD_NAME, vocabSize, hiddenSize);
  add(hiddenSize, [head], { finish: 'store', normed: false }, undefined, MATVEC_COLUMNS.at(-1)!);
  return {
    products: [...products.values()],
    attention: { heads, kvHeads, headSize, kvFormat: 'f32' },
    embeddings: [embedding.format],
    vocabulary: vocabSize,
    rope,
    swiglu,
  };
}
