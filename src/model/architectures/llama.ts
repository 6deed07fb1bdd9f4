import type { Architecture } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readGated, readHeads, readLayerCount } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Llama 2 and 3, SmolLM and SmolLM2, and what else says it is one. */
export const LLAMA: Architecture = {
  names: ['LlamaForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys);
    const bias = keys.flag('attention_bias', false);
    const attention = { ...heads, scale: heads.headSize ** -0.5, rope: 0, qkvBias: bias, outputBias: bias };
    const feedForward = readGated(keys, keys.flag('mlp_bias', false));
    const decoder = decoderOf(keys, {
      architecture: 'LlamaForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 10_000 })],
      layers: layersOf(readLayerCount(keys), () => ({ attention, feedForward, norms: 'before', residualScale: 1 })),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    keys.only('pretraining_tp', 1);
    // Falcon 3's files say it of the network that they have.
    keys.only('activation', 'swiglu');
    keys.refuseOthers('is_llama_config');
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
