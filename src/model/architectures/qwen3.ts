import type { Architecture } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readGated, readHeads, readLateWindows, readLayerCount } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Qwen3: each head's query and key is normed; later layers may have a window. */
export const QWEN3: Architecture = {
  names: ['Qwen3ForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys, { kvHeads: 32, headSize: 128 });
    const bias = keys.flag('attention_bias', false);
    const feedForward = readGated(keys, false);
    const layers = readLayerCount(keys);
    const windows = readLateWindows(keys, layers);
    const decoder = decoderOf(keys, {
      architecture: 'Qwen3ForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 10_000 })],
      layers: layersOf(layers, (index) => ({
        attention: {
          ...heads,
          ...windows[index],
          scale: heads.headSize ** -0.5,
          rope: 0,
          qkNorm: 'head',
          qkvBias: bias,
          outputBias: bias,
        },
        feedForward,
        norms: 'before',
        residualScale: 1,
      })),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    // Files may say so; the reference has its norms always.
    keys.only('use_qk_norm', true);
    keys.refuseOthers();
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
