import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import type { DecoderNames } from './architecture.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { DecoderTensors } from './decoder-tensors.ts';
import { attentionSources, feedForwardSources, type ProductSources } from './layer-sources.ts';

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

/** Reads a whole model that has a plain form into memory, floats quantised as `quantisation` says. Throws CheckpointError. */
export async function loadCpuWeights(
  checkpoint: Checkpoint,
  config: DecoderConfig,
  names: DecoderNames,
  quantisation?: Quantisation,
): Promise<CpuWeights> {
  const tensors = new DecoderTensors(checkpoint, undefined, quantisation);
  const { hiddenSize, vocabSize } = config;
  const floats = ({ columns, sources }: ProductSources) => tensors.floats(columns, sources);
  const norm = (name: { readonly weight: string } | undefined) => {
    if (!name) throw new Error('a norm has no name');
    return tensors.vector({ tensor: name.weight }, hiddenSize);
  };
  const embedding = await tensors.floats(hiddenSize, [tensors.matrix(names.embedding, vocabSize, hiddenSize)]);
  const layers: CpuLayerWeights[] = [];
  for (const [index, { feedForward }] of config.layers.entries()) {
    if (feedForward.kind === 'experts') throw new Error('experts have no plain form');
    const own = names.layer(index);
    const { qkv, output } = attentionSources(tensors, config, index, own);
    const { inner, down } = feedForwardSources(tensors, hiddenSize, feedForward, own.feedForward);
    layers.push({
      attentionNorm: await norm(own.attentionNorm),
      qkv: await floats(qkv),
      attentionOutput: await floats(output),
      feedForwardNorm: await norm(own.feedForwardNorm),
      gateUp: await floats(inner),
      down: await floats(down),
    });
  }
  return {
    embedding,
    layers,
    finalNorm: await norm(names.finalNorm),
    head: config.tiedHead
      ? embedding
      : await tensors.floats(hiddenSize, [tensors.matrix(names.head, vocabSize, hiddenSize)]),
  };
}
