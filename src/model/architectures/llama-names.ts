import type { DecoderNames, FeedForwardNames, LayerNames, ProductName } from '../architecture.ts';
import type { DecoderConfig, DecoderLayerConfig } from '../decoder-config.ts';

/** Early files hold rotary frequencies too, which follow from the config. */
export const ROTARY_BUFFERS = /^model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq$/;

/** `name`.weight, with `name`.bias where there is one. */
export function productName(name: string, bias: boolean): ProductName {
  return { weight: { tensor: `${name}.weight` }, ...(bias ? { bias: { tensor: `${name}.bias` } } : {}) };
}

/**
 * Names as Llama's reference has them and most families after it: model.layers.N.self_attn.q_proj and so on.
 * `change` has what a family calls otherwise in a layer.
 */
export function llamaNames(
  config: DecoderConfig,
  change: (prefix: string, layer: DecoderLayerConfig) => Partial<LayerNames> = () => ({}),
): DecoderNames {
  return {
    embedding: { tensor: 'model.embed_tokens.weight' },
    finalNorm: { weight: 'model.norm.weight' },
    head: { tensor: 'lm_head.weight' },
    layer(index) {
      const layer = config.layers[index]!;
      const prefix = `model.layers.${index}`;
      return { ...layerNames(prefix, layer), ...change(prefix, layer) };
    },
  };
}

function layerNames(prefix: string, { attention, norms, feedForward }: DecoderLayerConfig): LayerNames {
  const { qkvBias, outputBias, qkNorm } = attention;
  const norm = (name: string) => ({ weight: `${prefix}.${name}.weight` });
  return {
    query: productName(`${prefix}.self_attn.q_proj`, qkvBias),
    key: productName(`${prefix}.self_attn.k_proj`, qkvBias),
    value: productName(`${prefix}.self_attn.v_proj`, qkvBias),
    attentionOutput: productName(`${prefix}.self_attn.o_proj`, outputBias),
    ...(qkNorm ? { queryNorm: norm('self_attn.q_norm'), keyNorm: norm('self_attn.k_norm') } : {}),
    ...(norms === 'after' ? {} : { attentionNorm: norm('input_layernorm') }),
    // With norms on inputs alone the second one is named after what is before it.
    ...(norms === 'before' ? { feedForwardNorm: norm('post_attention_layernorm') } : {}),
    ...(norms === 'both' ? { feedForwardNorm: norm('pre_feedforward_layernorm') } : {}),
    ...(norms === 'before'
      ? {}
      : {
          attentionOutputNorm: norm('post_attention_layernorm'),
          feedForwardOutputNorm: norm('post_feedforward_layernorm'),
        }),
    feedForward: feedForwardNames(`${prefix}.mlp`, feedForward),
  };
}

function feedForwardNames(prefix: string, feedForward: DecoderLayerConfig['feedForward']): FeedForwardNames {
  const matrix = (name: string) => ({ tensor: `${prefix}.${name}.weight` });
  if (feedForward.kind === 'experts') {
    return {
      kind: 'experts',
      router: matrix('gate'),
      experts: Array.from({ length: feedForward.experts }, (_, expert) => ({
        gate: matrix(`experts.${expert}.gate_proj`),
        up: matrix(`experts.${expert}.up_proj`),
        down: matrix(`experts.${expert}.down_proj`),
      })),
    };
  }
  const product = (name: string) => productName(`${prefix}.${name}`, feedForward.bias);
  if (feedForward.kind === 'plain') return { kind: 'plain', up: product('up_proj'), down: product('down_proj') };
  return { kind: 'gated', gate: product('gate_proj'), up: product('up_proj'), down: product('down_proj') };
}
