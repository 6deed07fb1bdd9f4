import type { Architecture } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readGated, readHeads, readLateWindows, readLayerCount } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Qwen2 and 2.5: queries, keys and values have biases; later layers may have a window. */
export const QWEN2: Architecture = {
  names: ['Qwen2ForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys, { kvHeads: 32 });
    const attention = { ...heads, scale: heads.headSize ** -0.5, rope: 0, qkvBias: true, outputBias: false };
    const feedForward = readGated(keys, false);
    const layers = readLayerCount(keys);
    const windows = readLateWindows(keys, layers);
    const decoder = decoderOf(keys, {
      architecture: 'Qwen2ForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 10_000 })],
      layers: layersOf(layers, (index) => ({
        attention: { ...attention, ...windows[index] },
        feedForward,
        norms: 'before',
        residualScale: 1,
      })),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    keys.refuseOthers();
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
