import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CheckpointError } from '../../checkpoint/checkpoint.ts';
import { parseModelConfig } from '../../checkpoint/model-config.ts';
import { architectureOf, DECODERS } from '../architecture-of.ts';
import { tensorsOf } from '../decoder-checkpoint.ts';

/** Of all families at once: a family refuses those of another, and one of them at random is something else each time. */
const SIZES = {
  ...{ model_type: 'any', vocab_size: 50, hidden_size: 32, max_position_embeddings: 64, intermediate_size: 48 },
  ...{ num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2 },
};
const GPT2 = { model_type: 'gpt2', vocab_size: 50, n_embd: 32, n_head: 4, n_layer: 3, n_positions: 64 };

const KEYS = [
  ...Object.keys(SIZES).filter((key) => key !== 'model_type'),
  ...['head_dim', 'rms_norm_eps', 'rope_theta', 'rope_scaling', 'rope_parameters', 'sliding_window', 'layer_types'],
  ...['hidden_act', 'hidden_activation', 'attention_bias', 'mlp_bias', 'tie_word_embeddings', 'use_sliding_window'],
  ...['max_window_layers', 'no_rope_layers', 'no_rope_layer_interval', 'num_experts', 'num_local_experts'],
  ...['num_experts_per_tok', 'mlp_only_layers', 'decoder_sparse_step', 'moe_intermediate_size', 'norm_topk_prob'],
  ...['query_pre_attn_scalar', 'attn_logit_softcapping', 'final_logit_softcapping', 'sliding_window_pattern'],
  ...['partial_rotary_factor', 'original_max_position_embeddings', 'logits_scaling', 'embedding_multiplier'],
  ...['n_inner', 'layer_norm_epsilon', 'activation_function', 'scale_attn_weights', 'pretraining_tp'],
];
const ROPE_KEYS = [
  ...[
    'rope_type',
    'type',
    'factor',
    'rope_theta',
    'low_freq_factor',
    'high_freq_factor',
    'short_factor',
    'long_factor',
  ],
  ...['original_max_position_embeddings', 'attention_factor', 'beta_fast', 'mscale', 'truncate', 'full_attention'],
];

const number = fc.oneof(fc.integer({ min: -2, max: 9 }), fc.constantFrom(1e-6, 0.5, 4096, 1e300, 2 ** 53, -0));
const kind = fc.constantFrom('default', 'linear', 'yarn', 'llama3', 'longrope', 'silu', 'gelu', '__proto__', '');
const leaf = fc.oneof(
  number,
  kind,
  fc.boolean(),
  fc.constant(null),
  fc.array(fc.oneof(number, kind), { maxLength: 4 }),
);
const value = fc.oneof(leaf, fc.dictionary(fc.constantFrom(...ROPE_KEYS), leaf, { maxKeys: 5 }));

test('a config is read or refused, whatever it says, and what is read has no number that is none', () => {
  let read = 0;
  const runs = 1000;
  fc.assert(
    fc.property(
      fc.constantFrom(...DECODERS),
      fc.dictionary(fc.constantFrom(...KEYS), value, { maxKeys: 2 }),
      (architecture, change) => {
        const base = architecture.names[0] === 'GPT2LMHeadModel' ? GPT2 : SIZES;
        const text = JSON.stringify({ ...base, ...change, architectures: architecture.names });
        try {
          const config = parseModelConfig(text, 'config.json');
          const decoder = architectureOf(config).readConfig(config);
          expect(tensorsOf(architecture.tensorNames(decoder), decoder).size).toBeGreaterThan(decoder.layers.length);
          const numbers = [...decoder.ropes.flatMap(({ frequencies, factor }) => [...frequencies, factor])];
          numbers.push(decoder.logitsScale, decoder.embeddingScale, decoder.norm.epsilon);
          for (const { attention, feedForward } of decoder.layers) {
            const { heads, kvHeads, headSize, scale, rope = 0, window = 1 } = attention;
            numbers.push(scale, feedForward.size);
            expect([heads % kvHeads, headSize % 4, rope < Math.max(1, decoder.ropes.length), window > 0]).toEqual([
              ...[0, 0, true, true],
            ]);
          }
          expect(numbers.every(Number.isFinite)).toBe(true);
          read++;
        } catch (error) {
          if (!(error instanceof CheckpointError)) throw error;
        }
      },
    ),
    { numRuns: runs },
  );
  // Not all are refused.
  expect(read).toBeGreaterThan(runs / 10);
});
