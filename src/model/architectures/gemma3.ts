import type { Architecture } from '../architecture.ts';
import type { AttentionConfig } from '../decoder-config.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { capOf, readHeads, readLayerCount, readWindowedLayers, windowOf } from './read-layers.ts';
import { readLayerRopes } from './read-rope.ts';

const LOCAL_ROPE = 0;
const GLOBAL_ROPE = 1;

/**
 * Gemma 3, the text part of what reads images too: five layers with a window to one without, each kind with a rope of
 * its own.
 */
export const GEMMA3: Architecture = {
  names: ['Gemma3ForCausalLM', 'Gemma3ForConditionalGeneration'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys, { kvHeads: 4, headSize: 256 });
    const ropes = readLayerRopes(keys, heads.headSize, { local: 10_000, global: 1_000_000 });
    const bias = keys.flag('attention_bias', false);
    const cap = capOf(keys.optionalPositive('attn_logit_softcapping'));
    const attention: AttentionConfig = {
      ...heads,
      ...cap,
      scale: keys.positive('query_pre_attn_scalar', 256) ** -0.5,
      qkNorm: 'head',
      qkvBias: bias,
      outputBias: bias,
    };
    const size = keys.size('intermediate_size');
    const activation = keys.activation('hidden_activation', 'gelu_pytorch_tanh');
    const layers = readLayerCount(keys);
    // Some files call it so, with an underscore before it.
    const pattern = keys.size('sliding_window_pattern', keys.size('_sliding_window_pattern', 6));
    const windowed = readWindowedLayers(keys, layers) ?? layersOf(layers, (index) => (index + 1) % pattern !== 0);
    const window = windowOf(keys, keys.optionalSize('sliding_window', 4096));
    const logitsCap = keys.optionalPositive('final_logit_softcapping');
    const decoder = decoderOf(keys, {
      architecture: 'Gemma3ForCausalLM',
      embeddingScale: Math.sqrt(config.hiddenSize),
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 1 },
      ropes: [ropes.local, ropes.global],
      layers: layersOf(layers, (index) => ({
        attention: windowed[index]
          ? { ...attention, ...window, rope: LOCAL_ROPE }
          : { ...attention, rope: GLOBAL_ROPE },
        feedForward: { kind: 'gated', size, activation, bias: false },
        norms: 'both',
        residualScale: 1,
      })),
      ...(logitsCap === undefined ? {} : { logitsCap }),
      tiedHead: keys.flag('tie_word_embeddings', true),
    });
    keys.refuseOthers();
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
