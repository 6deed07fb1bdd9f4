import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import {
  DecoderTensors,
  EMBEDDING_NAME,
  FINAL_NORM_NAME,
  HEAD_NAME,
  layerNames,
  layerSources,
} from './decoder-tensors.ts';
import type { LlamaConfig } from './llama-config.ts';

/** One layer as f32, row-major; the shapes are DecoderLayerWeights'. */
export interface CpuLayerWeights {
  readonly attentionNorm: Float32Array;
  readonly qkv: Float32Array;
  readonly attentionOutput: Float32Array;
  readonly feedForwardNorm: Float32Array;
  readonly gateUp: Float32Array;
  readonly down: Float32Array;
}

/** A whole Llama as f32. */
export interface CpuWeights {
  /** [vocabSize, hiddenSize]. */
  readonly embedding: Float32Array;
  readonly layers: readonly CpuLayerWeights[];
  readonly finalNorm: Float32Array;
  /** [vocabSize, hiddenSize]. */
  readonly head: Float32Array;
}

/** Reads a whole model into memory, floats quantised as `quantisation` says. Throws CheckpointError. */
export async function loadCpuWeights(
  checkpoint: Checkpoint,
  config: LlamaConfig,
  quantisation?: Quantisation,
): Promise<CpuWeights> {
  const tensors = new DecoderTensors(checkpoint, undefined, quantisation);
  const { hiddenSize, vocabSize } = config;
  const embedding = await tensors.floats(hiddenSize, [tensors.matrix(EMBEDDING_NAME, vocabSize, hiddenSize)]);
  const layers: CpuLayerWeights[] = [];
  for (let layer = 0; layer < config.layers; layer++) {
    const names = layerNames(layer);
    const sources = layerSources(tensors, config, layer);
    layers.push({
      attentionNorm: await tensors.vector(names.attentionNorm, hiddenSize),
      qkv: await tensors.floats(hiddenSize, sources.qkv),
      attentionOutput: await tensors.floats(config.heads * config.headSize, sources.attentionOutput),
      feedForwardNorm: await tensors.vector(names.feedForwardNorm, hiddenSize),
      gateUp: await tensors.floats(hiddenSize, sources.gateUp),
      down: await tensors.floats(config.intermediateSize, sources.down),
    });
  }
  return {
    embedding,
    layers,
    finalNorm: await tensors.vector(FINAL_NORM_NAME, hiddenSize),
    head: config.tiedHead
      ? embedding
      : await tensors.floats(hiddenSize, [tensors.matrix(HEAD_NAME, vocabSize, hiddenSize)]),
  };
}
