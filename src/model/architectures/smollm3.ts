import type { Architecture } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readGated, readHeads, readLayerCount, readWindowedLayers, windowOf } from './read-layers.ts';
import { readRope } from './read-rope.ts';

const isSwitch = (value: unknown): value is 0 | 1 => value === 0 || value === 1;

/** SmolLM3: a Llama that doesn't rotate in some layers, which may have a window. */
export const SMOLLM3: Architecture = {
  names: ['SmolLM3ForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys, { kvHeads: 4 });
    const bias = keys.flag('attention_bias', false);
    const feedForward = readGated(keys, keys.flag('mlp_bias', false));
    const layers = readLayerCount(keys);
    const interval = keys.size('no_rope_layer_interval', 4);
    // 1 rotates, whatever the name says; the list wins over the interval.
    const ropes =
      keys.perLayer('no_rope_layers', layers, isSwitch)?.map((rotates) => rotates === 1) ??
      layersOf(layers, (index) => (index + 1) % interval !== 0);
    const window = keys.optionalSize('sliding_window');
    const windowed = readWindowedLayers(keys, layers) ?? ropes.map((rotates) => !rotates);
    const ownWindow = windowOf(keys, keys.flag('use_sliding_window', false) ? window : undefined);
    const decoder = decoderOf(keys, {
      architecture: 'SmolLM3ForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 2_000_000 })],
      layers: layersOf(layers, (index) => ({
        attention: {
          ...heads,
          ...(windowed[index] ? ownWindow : {}),
          scale: heads.headSize ** -0.5,
          ...(ropes[index] ? { rope: 0 } : {}),
          qkvBias: bias,
          outputBias: bias,
        },
        feedForward,
        norms: 'before',
        residualScale: 1,
      })),
      tiedHead: keys.flag('tie_word_embeddings', true),
    });
    // Both are left of other families: the reference reads neither.
    keys.refuseOthers('max_window_layers', 'pretraining_tp');
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
