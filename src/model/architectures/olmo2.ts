import type { Architecture } from '../architecture.ts';
import type { AttentionConfig } from '../decoder-config.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readGated, readHeads, readLayerCount } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** OLMo 2: norms stand on outputs, and on all queries, or keys, of a row together. */
export const OLMO2: Architecture = {
  names: ['Olmo2ForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys);
    const bias = keys.flag('attention_bias', false);
    const attention: AttentionConfig = {
      ...heads,
      scale: heads.headSize ** -0.5,
      rope: 0,
      qkNorm: 'row',
      qkvBias: bias,
      outputBias: bias,
    };
    const feedForward = readGated(keys, false);
    const decoder = decoderOf(keys, {
      architecture: 'Olmo2ForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-5), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 10_000 })],
      layers: layersOf(readLayerCount(keys), () => ({ attention, feedForward, norms: 'after', residualScale: 1 })),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    keys.refuseOthers();
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
