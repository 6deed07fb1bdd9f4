import type { Architecture } from '../architecture.ts';
import type { AttentionConfig } from '../decoder-config.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, ROTARY_BUFFERS } from './llama-names.ts';
import { readExpertCounts, readGated, readHeads, readLayerCount, windowOf } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Qwen3 with experts, but for dense layers in between; where it has a window, all its layers have it. */
export const QWEN3_MOE: Architecture = {
  names: ['Qwen3MoeForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys, { kvHeads: 4 });
    const bias = keys.flag('attention_bias', false);
    const window = keys.optionalSize('sliding_window', 4096);
    const attention: AttentionConfig = {
      ...heads,
      ...windowOf(keys, keys.flag('use_sliding_window', false) ? window : undefined),
      scale: heads.headSize ** -0.5,
      rope: 0,
      qkNorm: 'head',
      qkvBias: bias,
      outputBias: bias,
    };
    const layers = readLayerCount(keys);
    const dense = readGated(keys, false);
    // Newer files call it as Mixtral's do.
    const counted = keys.get('num_experts') == null ? 'num_local_experts' : 'num_experts';
    const experts = {
      kind: 'experts',
      ...readExpertCounts(keys, counted, { experts: 128, chosen: 8 }),
      size: keys.size('moe_intermediate_size', 768),
      activation: keys.activation('hidden_act', 'silu'),
      normalised: keys.flag('norm_topk_prob', false),
    } as const;
    const step = keys.size('decoder_sparse_step', 1);
    const denseLayers = new Set(keys.indices('mlp_only_layers', layers));
    const decoder = decoderOf(keys, {
      architecture: 'Qwen3MoeForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-6), gainOffset: 0 },
      ropes: [readRope(keys, heads.headSize, { theta: 10_000 })],
      layers: layersOf(layers, (index) => ({
        attention,
        feedForward: denseLayers.has(index) || (index + 1) % step !== 0 ? dense : experts,
        norms: 'before',
        residualScale: 1,
      })),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    // What Qwen3-Coder's files say of models before it.
    keys.only('use_qk_norm', true);
    keys.only('shared_expert_intermediate_size', 0);
    keys.refuseOthers('max_window_layers', 'output_router_logits', 'router_aux_loss_coef');
    return decoder;
  },
  tensorNames: (config) => llamaNames(config),
};
