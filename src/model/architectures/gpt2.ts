import type { Architecture, ProductName } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { readLayerCount } from './read-layers.ts';

/** GPT-2: learned positions, LayerNorm, a plain feed-forward network, biases everywhere, matrices the other way round. */
export const GPT2: Architecture = {
  names: ['GPT2LMHeadModel'],
  prefix: 'transformer.',
  buffers: /^transformer\.h\.\d+\.attn\.(bias|masked_bias)$/,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const { hiddenSize, contextLength } = config;
    const heads = keys.size('n_head');
    const headSize = hiddenSize / heads;
    if (!Number.isInteger(headSize)) keys.fail(`n_head ${heads} does not divide n_embd ${hiddenSize}`);
    if (headSize % 4 !== 0) keys.fail(`heads of n_embd / n_head = ${headSize} numbers, not a multiple of 4`);
    const scale = keys.flag('scale_attn_weights', true) ? headSize ** -0.5 : 1;
    const byLayer = keys.flag('scale_attn_by_inverse_layer_idx', false);
    const size = keys.size('n_inner', 4 * hiddenSize);
    const activation = keys.activation('activation_function', 'gelu_new');
    keys.only('add_cross_attention', false);
    const decoder = decoderOf(keys, {
      architecture: 'GPT2LMHeadModel',
      learnedPositions: contextLength,
      norm: { kind: 'layer', epsilon: keys.positive('layer_norm_epsilon', 1e-5), gainOffset: 0 },
      ropes: [],
      layers: layersOf(readLayerCount(keys, 'n_layer'), (index) => ({
        attention: {
          heads,
          kvHeads: heads,
          headSize,
          scale: byLayer ? scale / (index + 1) : scale,
          qkvBias: true,
          outputBias: true,
        },
        feedForward: { kind: 'plain', size, activation, bias: true },
        norms: 'before',
        residualScale: 1,
      })),
      tiedHead: keys.flag('tie_word_embeddings', true),
    });
    keys.refuseOthers(
      ...['n_embd', 'n_positions', 'n_ctx', 'attn_pdrop', 'embd_pdrop', 'resid_pdrop', 'reorder_and_upcast_attn'],
      ...['n_special', 'predict_special_tokens'],
      ...['summary_activation', 'summary_first_dropout', 'summary_proj_to_labels', 'summary_type', 'summary_use_proj'],
    );
    return decoder;
  },
  tensorNames: ({ hiddenSize }) => ({
    embedding: { tensor: 'transformer.wte.weight' },
    positions: { tensor: 'transformer.wpe.weight' },
    finalNorm: { weight: 'transformer.ln_f.weight', bias: 'transformer.ln_f.bias' },
    head: { tensor: 'lm_head.weight' },
    layer(index) {
      const prefix = `transformer.h.${index}`;
      const norm = (name: string) => ({ weight: `${prefix}.${name}.weight`, bias: `${prefix}.${name}.bias` });
      const product = (name: string, part?: number): ProductName => {
        const stretch = part === undefined ? {} : { stretch: { first: part * hiddenSize, of: 3 * hiddenSize } };
        return {
          weight: { tensor: `${prefix}.${name}.weight`, ...stretch, transposed: true },
          bias: { tensor: `${prefix}.${name}.bias`, ...stretch },
        };
      };
      return {
        query: product('attn.c_attn', 0),
        key: product('attn.c_attn', 1),
        value: product('attn.c_attn', 2),
        attentionOutput: product('attn.c_proj'),
        attentionNorm: norm('ln_1'),
        feedForwardNorm: norm('ln_2'),
        feedForward: { kind: 'plain', up: product('mlp.c_fc'), down: product('mlp.c_proj') },
      };
    },
  }),
};
