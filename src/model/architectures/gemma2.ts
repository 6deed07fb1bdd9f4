import type { Architecture } from '../architecture.ts';
import type { AttentionConfig } from '../decoder-config.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { capOf, readHeads, readLayerCount, readWindowedLayers, windowOf } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Gemma 2: scores and logits are capped, norms stand on both sides, every other layer has a window, the first one too. */
export const GEMMA2: Architecture = {
  names: ['Gemma2ForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys, { kvHeads: 4, headSize: 256 });
    const bias = keys.flag('attention_bias', false);
    const cap = capOf(keys.optionalPositive('attn_logit_softcapping', 50));
    const attention: AttentionConfig = {
      ...heads,
      ...cap,
      scale: keys.positive('query_pre_attn_scalar', 256) ** -0.5,
      rope: 0,
      qkvBias: bias,
      outputBias: bias,
    };
    const size = keys.size('intermediate_size');
    const activation = keys.activation('hidden_activation', 'gelu_pytorch_tanh');
    const layers = readLayerCount(keys);
    const windowed = readWindowedLayers(keys, layers) ?? layersOf(layers, (index) => index % 2 === 0);
    const told = keys.optionalSize('sliding_window', 4096);
    keys.only('sliding_window_size', told);
    const window = windowOf(keys, told);
    const logitsCap = keys.optionalPositive('final_logit_softcapping', 30);
    const decoder = decoderOf(keys, {
      architecture: 'Gemma2ForCausalLM',
      embeddingScale: Math.sqrt(config.hiddenSize),
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 1 },
      ropes: [readRope(keys, heads.headSize, { theta: 10_000 })],
      layers: layersOf(layers, (index) => ({
        attention: windowed[index] ? { ...attention, ...window } : attention,
        feedForward: { kind: 'gated', size, activation, bias: false },
        norms: 'both',
        residualScale: 1,
      })),
      ...(logitsCap === undefined ? {} : { logitsCap }),
      tiedHead: keys.flag('tie_word_embeddings', true),
    });
    // The reference takes hidden_activation alone.
    keys.refuseOthers('hidden_act');
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
