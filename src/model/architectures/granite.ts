import type { Architecture } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readGated, readHeads, readLayerCount } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Granite 3: a Llama whose embeddings, scores, residuals and logits are scaled. */
export const GRANITE: Architecture = {
  names: ['GraniteForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys);
    const bias = keys.flag('attention_bias', false);
    // In place of 1/√headSize.
    const scale = keys.positive('attention_multiplier', 1);
    const attention = { ...heads, scale, rope: 0, qkvBias: bias, outputBias: bias };
    const feedForward = readGated(keys, keys.flag('mlp_bias', false));
    const residualScale = keys.positive('residual_multiplier', 1);
    const decoder = decoderOf(keys, {
      architecture: 'GraniteForCausalLM',
      embeddingScale: keys.positive('embedding_multiplier', 1),
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 10_000 })],
      layers: layersOf(readLayerCount(keys), () => ({ attention, feedForward, norms: 'before', residualScale })),
      logitsScale: 1 / keys.positive('logits_scaling', 1),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    keys.refuseOthers();
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
