import type { Architecture } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readGated, readHeads, readLayerCount, windowOf } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Mistral: a Llama whose layers may all have a window. */
export const MISTRAL: Architecture = {
  names: ['MistralForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys, { kvHeads: 8 });
    const window = windowOf(keys, keys.optionalSize('sliding_window', 4096));
    const attention = {
      ...heads,
      ...window,
      scale: heads.headSize ** -0.5,
      rope: 0,
      qkvBias: false,
      outputBias: false,
    };
    const feedForward = readGated(keys, false);
    const decoder = decoderOf(keys, {
      architecture: 'MistralForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 10_000 })],
      layers: layersOf(readLayerCount(keys), () => ({ attention, feedForward, norms: 'before', residualScale: 1 })),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    keys.refuseOthers();
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
