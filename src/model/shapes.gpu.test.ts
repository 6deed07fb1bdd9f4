import { expect, test } from 'vitest';
import { Random } from '../gpu/testing/random.ts';
import { referenceDecoder } from '../testing/decoder-reference.ts';
import { readReferenceWeights } from '../testing/decoder-reference-weights.ts';
import { testDevice } from '../testing/device.ts';
import { openDecoder } from './describe-decoder.ts';
import { loadDecoder } from './load-decoder.ts';
import { blocksFor, logitsRow } from './testing/generate.ts';
import { type RandomFiles, randomDecoder } from './testing/random-decoder.ts';

/** Each compiles kernels of its own, which takes a software adapter a while. */
const LONG = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

const LENGTH = 40;
const TOLERANCE = 2e-3;

type Keys = Readonly<Record<string, unknown>>;

const shape = (hidden: number, inner: number, vocabulary: number, layers = 2): Keys => ({
  hidden_size: hidden,
  intermediate_size: inner,
  vocab_size: vocabulary,
  num_hidden_layers: layers,
  max_position_embeddings: 96,
});
const heads = (queries: number, keys: number, size: number): Keys => ({
  num_attention_heads: queries,
  num_key_value_heads: keys,
  head_dim: size,
});

/** Family, config, and how its files are. Sizes are no multiples of one another, or of tiles, where that can be. */
const CASES: readonly (readonly [string, Keys, RandomFiles])[] = [
  [
    'Gemma 3 of bfloat16 in two files, heads of 8 in sixes',
    {
      ...shape(44, 70, 131, 3),
      ...heads(6, 1, 8),
      architectures: ['Gemma3ForCausalLM'],
      ...{ sliding_window: 11, sliding_window_pattern: 2, query_pre_attn_scalar: 10 },
    },
    { format: 'bf16', shards: 2, storedHead: true },
  ],
  [
    'GPT-2 of halves without its prefix, untied',
    {
      architectures: ['GPT2LMHeadModel'],
      ...{
        n_embd: 60,
        n_head: 5,
        n_layer: 2,
        n_positions: 64,
        n_inner: 90,
        vocab_size: 97,
        tie_word_embeddings: false,
      },
    },
    { format: 'f16', shards: 1, bare: true },
  ],
  [
    'Llama with all biases, a head for each KV head, yarn, in three files',
    {
      ...shape(52, 66, 100),
      ...heads(3, 3, 20),
      architectures: ['LlamaForCausalLM'],
      ...{ attention_bias: true, mlp_bias: true, tie_word_embeddings: true },
      rope_scaling: { rope_type: 'yarn', factor: 3, original_max_position_embeddings: 32, beta_fast: 4 },
    },
    { format: 'f32', shards: 3 },
  ],
  [
    'Mistral of bfloat16, one KV head, a window over an edge of blocks',
    { ...shape(36, 52, 70), ...heads(7, 1, 12), architectures: ['MistralForCausalLM'], sliding_window: 17 },
    { format: 'bf16', shards: 1, bare: true },
  ],
  [
    'Qwen2 with windows in later layers, linear',
    {
      ...shape(68, 90, 111, 3),
      ...heads(4, 2, 28),
      architectures: ['Qwen2ForCausalLM'],
      ...{ use_sliding_window: true, max_window_layers: 1, sliding_window: 9, tie_word_embeddings: true },
      rope_scaling: { type: 'linear', factor: 2.5 },
    },
    { format: 'f16', shards: 2 },
  ],
  [
    'Qwen3 with biases and large heads',
    { ...shape(40, 64, 90), ...heads(2, 1, 132), architectures: ['Qwen3ForCausalLM'], attention_bias: true },
    { format: 'bf16', shards: 1 },
  ],
  [
    'Qwen3 with five experts, three of them chosen as they are, and a dense layer',
    {
      ...shape(36, 44, 80),
      ...heads(4, 4, 8),
      architectures: ['Qwen3MoeForCausalLM'],
      ...{ moe_intermediate_size: 28, num_experts: 5, num_experts_per_tok: 3, mlp_only_layers: [0] },
    },
    { format: 'bf16', shards: 2 },
  ],
  [
    'Mixtral of halves, one of three experts',
    {
      ...shape(44, 36, 75),
      ...heads(6, 2, 16),
      architectures: ['MixtralForCausalLM'],
      ...{ num_local_experts: 3, num_experts_per_tok: 1, sliding_window: 20 },
    },
    { format: 'f16', shards: 1 },
  ],
  [
    'Gemma 2 untied, without one of its caps',
    {
      ...shape(56, 100, 120),
      ...heads(4, 4, 16),
      architectures: ['Gemma2ForCausalLM'],
      ...{ sliding_window: 10, query_pre_attn_scalar: 30, attn_logit_softcapping: 5, final_logit_softcapping: null },
      tie_word_embeddings: false,
    },
    { format: 'f32', shards: 1 },
  ],
  [
    'Phi-3 of long factors, half of each head rotated',
    {
      ...shape(48, 60, 93),
      ...{ num_attention_heads: 3, num_key_value_heads: 3, architectures: ['Phi3ForCausalLM'] },
      ...{ partial_rotary_factor: 0.5, original_max_position_embeddings: 32, sliding_window: 24 },
      rope_scaling: { type: 'longrope', short_factor: [1, 1, 1, 1], long_factor: [1, 1.5, 3, 6] },
    },
    { format: 'bf16', shards: 1 },
  ],
  [
    'SmolLM3 with windows where it does not rotate',
    {
      ...shape(32, 40, 66, 4),
      ...heads(4, 2, 8),
      architectures: ['SmolLM3ForCausalLM'],
      ...{ no_rope_layer_interval: 2, use_sliding_window: true, sliding_window: 13 },
    },
    { format: 'f16', shards: 2 },
  ],
  [
    'OLMo 2 with as many KV heads as heads',
    { ...shape(64, 84, 77), ...heads(4, 4, 16), architectures: ['Olmo2ForCausalLM'] },
    { format: 'bf16', shards: 1 },
  ],
  [
    'Granite untied, with biases',
    {
      ...shape(60, 70, 99),
      ...heads(5, 5, 12),
      architectures: ['GraniteForCausalLM'],
      ...{ attention_bias: true, attention_multiplier: 0.4, embedding_multiplier: 2, residual_multiplier: 0.5 },
      logits_scaling: 1.5,
    },
    { format: 'f32', shards: 1 },
  ],
];
const SHORT = 1;

test.each(LONG ? CASES : CASES.slice(0, SHORT))('%s', async (title, raw, files) => {
  const seed = 1000 + CASES.findIndex(([each]) => each === title);
  const { config, checkpoint: stored } = await randomDecoder(seed, raw, files);
  const { config: decoder, names, checkpoint } = openDecoder(stored, config);
  const random = new Random(seed);
  const ids = Array.from({ length: LENGTH }, () => random.integer(0, decoder.vocabSize - 1));
  const { logits } = referenceDecoder(decoder, await readReferenceWeights(checkpoint, names, decoder), ids);

  const runner = await loadDecoder(await testDevice(), stored, config, { kvBlocks: 4, maxRows: 32, maxSequences: 1 });
  try {
    const blockTable = blocksFor(LENGTH);
    const moreTables = runner.limits.kvGroups.slice(1).map(() => blockTable);
    let worst = 0;
    for (const [from, to] of [
      [0, 19],
      [19, 20],
      [20, LENGTH],
    ] as const) {
      const tokens = ids.slice(from, to);
      const rows = await runner.logits({
        sequences: [{ slot: 0, tokens, startPosition: from, blockTable, moreTables }],
        logits: tokens.map((_, row) => logitsRow(row, 0)),
      });
      rows.forEach((row, i) => {
        row.forEach((logit, id) => {
          worst = Math.max(worst, Math.abs(logit - logits[from + i]![id]!));
        });
      });
    }
    expect(worst).toBeLessThan(TOLERANCE);
    // Far from flat, so that this says something.
    expect(Math.max(...logits.at(-1)!) - Math.min(...logits.at(-1)!)).toBeGreaterThan(1);
  } finally {
    runner.destroy();
  }
});
