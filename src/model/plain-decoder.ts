import { CheckpointError } from '../checkpoint/checkpoint.ts';
import type { DecoderConfig, RopeConfig } from './decoder-config.ts';

/** The numbers of a decoder that is like Llama: all that its reference on the CPU, and its cost, depend on. */
export interface PlainDecoder {
  readonly layers: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly normEpsilon: number;
  readonly rope: RopeConfig;
  /** Of each layer; see AttentionConfig. */
  readonly windows: readonly (number | undefined)[];
  readonly tiedHead: boolean;
}

/** A config in these numbers. Throws CheckpointError where it has anything that they can't say. */
export function plainDecoder(config: DecoderConfig): PlainDecoder {
  const refuse = (what: string): never => {
    throw new CheckpointError(`${config.architecture} with ${what} has no plain form`);
  };
  const { hiddenSize, vocabSize, contextLength, tiedHead, norm, ropes, layers } = config;
  const { attention, feedForward } = layers[0]!;
  if (feedForward.kind !== 'gated' || feedForward.activation !== 'silu') return refuse('another network than SiLU’s');
  if (norm.kind !== 'rms' || norm.gainOffset !== 0) refuse('other norms');
  if (config.embeddingScale !== 1 || config.logitsScale !== 1 || config.logitsCap !== undefined) refuse('scales');
  if (config.learnedPositions !== undefined) refuse('learned positions');
  for (const layer of layers) {
    const { heads, kvHeads, headSize, scale, cap, rope, qkNorm, qkvBias, outputBias } = layer.attention;
    if (layer.norms !== 'before' || layer.residualScale !== 1 || qkNorm !== undefined) refuse('other norms or scales');
    if (qkvBias || outputBias || (layer.feedForward.kind === 'gated' && layer.feedForward.bias)) refuse('biases');
    if (cap !== undefined || scale !== headSize ** -0.5) refuse('other attention');
    if (rope !== 0 || ropes[0]!.rotated !== headSize) refuse('another rotation');
    const same = JSON.stringify(layer.feedForward) === JSON.stringify(feedForward);
    if (!same || heads !== attention.heads || kvHeads !== attention.kvHeads || headSize !== attention.headSize) {
      refuse('layers that differ');
    }
  }
  return {
    ...{ layers: layers.length, hiddenSize, intermediateSize: feedForward.size },
    ...{ heads: attention.heads, kvHeads: attention.kvHeads, headSize: attention.headSize },
    ...{ vocabSize, contextLength, normEpsilon: norm.epsilon, rope: ropes[0]!, tiedHead },
    windows: layers.map(({ attention: { window } }) => window),
  };
}
