import type { Architecture, ProductName } from '../architecture.ts';
import { ConfigKeys } from './config-keys.ts';
import { decoderOf, layersOf } from './decoder-of.ts';
import { llamaNames, productName, ROTARY_BUFFERS } from './llama-names.ts';
import { readGated, readHeads, readLayerCount, windowOf } from './read-layers.ts';
import { readRope } from './read-rope.ts';

/** Phi-3, 3.5 and 4-mini: a Llama with fused matrices, of which a part of each head may be rotated. */
export const PHI3: Architecture = {
  names: ['Phi3ForCausalLM'],
  prefix: 'model.',
  buffers: ROTARY_BUFFERS,
  readConfig(config) {
    const keys = new ConfigKeys(config);
    const heads = readHeads(keys);
    const window = windowOf(keys, keys.optionalSize('sliding_window'));
    const attention = {
      ...heads,
      ...window,
      scale: heads.headSize ** -0.5,
      rope: 0,
      qkvBias: false,
      outputBias: false,
    };
    const feedForward = readGated(keys, false);
    const rope = readRope(keys, heads.headSize, {
      theta: 10_000,
      kinds: ['longrope'],
      partial: 1,
      originalContext: 4096,
    });
    const decoder = decoderOf(keys, {
      architecture: 'Phi3ForCausalLM',
      norm: { kind: 'rms', epsilon: keys.positive('rms_norm_eps', 1e-5), gainOffset: 0 },
      ropes: [rope],
      layers: layersOf(readLayerCount(keys), () => ({ attention, feedForward, norms: 'before', residualScale: 1 })),
      tiedHead: keys.flag('tie_word_embeddings', false),
    });
    // What Phi-4-mini's file says of its own code; the reference has none of it.
    keys.only('full_attn_mod', 1);
    keys.only('interpolate_factor', 1);
    keys.only('attention_bias', false);
    keys.refuseOthers('embd_pdrop', 'resid_pdrop', 'original_max_position_embeddings');
    return decoder;
  },
  tensorNames: (config) =>
    llamaNames(config, (prefix, { attention, feedForward }) => {
      const { heads, kvHeads, headSize } = attention;
      const queries = heads * headSize;
      const keys = kvHeads * headSize;
      const of = queries + 2 * keys;
      const stretch = (tensor: string, first: number, of: number): ProductName => ({
        weight: { tensor, stretch: { first, of } },
      });
      const qkv = `${prefix}.self_attn.qkv_proj.weight`;
      const gateUp = `${prefix}.mlp.gate_up_proj.weight`;
      return {
        query: stretch(qkv, 0, of),
        key: stretch(qkv, queries, of),
        value: stretch(qkv, queries + keys, of),
        feedForward: {
          kind: 'gated',
          gate: stretch(gateUp, 0, 2 * feedForward.size),
          up: stretch(gateUp, feedForward.size, 2 * feedForward.size),
          down: productName(`${prefix}.mlp.down_proj`, false),
        },
      };
    }),
};
