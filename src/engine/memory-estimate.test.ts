import { expect, test } from 'vitest';
import { estimateMemory } from './memory-estimate.ts';

/** What a relay tells of SmolLM2-135M in Q4_1, whose page counted 98.3 MB of weights and 399.6 MB in all. */
const config = {
  ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama' },
  ...{
    hidden_size: 576,
    intermediate_size: 1536,
    num_hidden_layers: 30,
    num_attention_heads: 9,
    num_key_value_heads: 3,
  },
  ...{ vocab_size: 49_152, max_position_embeddings: 8192, tie_word_embeddings: true },
};
const tensors = [
  { dtype: 'Q8_0', shape: [49_152, 576], count: 1 },
  { dtype: 'Q4_1', shape: [576, 576], count: 60 },
  { dtype: 'Q4_1', shape: [192, 576], count: 60 },
  { dtype: 'Q4_1', shape: [1536, 576], count: 60 },
  { dtype: 'Q4_1', shape: [576, 1536], count: 30 },
  { dtype: 'F32', shape: [576], count: 61 },
];
const budget = { kvBytes: 256 * 2 ** 20, maxRunning: 64 };

test('is near what a page counts once the model is loaded', () => {
  const { weightBytes, kvBytes, scratchBytes } = estimateMemory({ bases: [], config, tensors }, 'none', budget)!;
  expect(Math.abs(weightBytes / 98.3e6 - 1)).toBeLessThan(0.05);
  expect(Math.abs(kvBytes / 268.4e6 - 1)).toBeLessThan(0.01);
  expect(Math.abs((weightBytes + kvBytes + scratchBytes) / 399.6e6 - 1)).toBeLessThan(0.05);
});

test('follows the quantisation of floats, and no more conversations than can be', () => {
  const floats = [{ dtype: 'BF16', shape: [4096, 1024], count: 1 }];
  const bytes = (quantisation: 'none' | 'q8' | 'q4', maxRunning = 64) =>
    estimateMemory({ bases: [], config, tensors: floats }, quantisation, { ...budget, maxRunning })!;
  expect(bytes('none').weightBytes).toBe(2 * 2 ** 22);
  expect(bytes('q8').weightBytes).toBe(2 ** 22 + 2 ** 22 / 8);
  expect(bytes('q4').weightBytes).toBe(2 ** 21 + 2 ** 22 / 8);
  const tokenBytes = 30 * 2 * 3 * 64 * 4;
  expect(estimateMemory({ bases: [], config, tensors }, 'none', { kvBytes: 1e12, maxRunning: 2 })!.kvBytes).toBe(
    2 * 8192 * tokenBytes,
  );
  expect(estimateMemory({ bases: [], config, tensors: undefined }, 'none', budget)).toBeUndefined();
});

test('counts slots for adapters', () => {
  const scratch = (adapters?: { most: number; maxRank: number }) =>
    estimateMemory({ bases: [], config, tensors }, 'none', { ...budget, ...(adapters ? { adapters } : {}) })!
      .scratchBytes;
  const slot = 30 * 4 * 16 * (3 * 576 + 960 + 2 * 576 + 2 * 576 + 3072 + 1536 + 576);
  const [none, two, three] = [scratch(), scratch({ most: 2, maxRank: 16 }), scratch({ most: 3, maxRank: 16 })];
  expect(scratch({ most: 0, maxRank: 0 })).toBe(none);
  expect(two).toBeGreaterThan(none + 2 * slot);
  // Beside the ranks that each module's update has.
  expect(Math.abs(three - two - slot)).toBeLessThan(30 * 4 * 32);
});

const estimate = (more: object, counts = tensors) =>
  estimateMemory({ bases: [], config: { ...config, ...more }, tensors: counts }, 'none', budget);

test('counts what a row of a mixture leaves of each chosen expert', () => {
  const own = { architectures: ['Qwen3MoeForCausalLM'], moe_intermediate_size: 768 };
  const scratch = (more: object) => estimate({ ...own, ...more })!.scratchBytes;
  const dense = scratch({ decoder_sparse_step: 31 });
  const rows = 256;
  // Router logits; of each expert its index, its share, what down takes and what it gives; in place of gate and up.
  const experts = 4 * rows * (128 + 8 * (2 + 768 + 576));
  expect(scratch({ num_experts: 128, num_experts_per_tok: 8 }) - dense).toBe(experts - 4 * rows * 2 * 1536);
});

test('counts routers as the floats that they stay', () => {
  const mixtral = { architectures: ['MixtralForCausalLM'], num_local_experts: 8, num_experts_per_tok: 2 };
  const floats = [
    { dtype: 'BF16', shape: [8, 576], count: 30 },
    { dtype: 'BF16', shape: [576, 576], count: 30 },
  ];
  const { weightBytes } = estimateMemory(
    { bases: [], config: { ...config, ...mixtral }, tensors: floats },
    'q4',
    budget,
  )!;
  // Rows of a matrix lie in tiles of 64; a number of 4 bits has an eighth of a byte of a scale beside it.
  expect(weightBytes).toBe(30 * (64 * 576 * 2 + 576 * 576 * (1 / 2 + 1 / 8)));
});

test('knows a tied head of families that tie it without a word', () => {
  const head = { dtype: 'F16', shape: [49_152, 576], count: 1 };
  const bytes = (more: object, counts: typeof tensors) => estimate(more, counts)!.weightBytes;
  const tied = { architectures: ['Gemma2ForCausalLM'], tie_word_embeddings: undefined };
  expect(bytes(tied, [{ ...head, count: 2 }])).toBe(bytes(tied, [head]));
  const untied = { ...tied, tie_word_embeddings: false };
  expect(bytes(untied, [{ ...head, count: 2 }])).toBe(2 * bytes(untied, [head]));
});

test('gives windowed layers as much as their windows take, and what is left to the others', () => {
  const gemma = { architectures: ['Gemma3ForCausalLM'], sliding_window: 512, sliding_window_pattern: 6 };
  const roomy = { kvBytes: 1e12, maxRunning: 2 };
  const kv = (more: object) =>
    estimateMemory({ bases: [], config: { ...config, head_dim: 64, ...more }, tensors }, 'none', roomy)!.kvBytes;
  const tokenBytes = 2 * 3 * 64 * 4;
  // Of 30 layers five see all; the others a window, a chunk of 256 rows, and two blocks in part, of each conversation.
  expect(kv(gemma)).toBe(tokenBytes * (5 * 2 * 8192 + 25 * 2 * (512 + 256 + 32)));
  expect(kv({})).toBe(tokenBytes * 30 * 2 * 8192);
});

test('counts the positions that windows slide through, not those that the pool holds at once', () => {
  const scratch = (more: object, kvBytes: number) =>
    estimateMemory({ bases: [], config: { ...config, ...more }, tensors }, 'none', { kvBytes, maxRunning: 2 })!
      .scratchBytes;
  const mistral = { architectures: ['MistralForCausalLM'] };
  const blocks = 100 * 16 * 30 * 2 * 3 * 64 * 4;
  const whole = scratch({ ...mistral, sliding_window: null }, 1e12);
  expect(scratch({ ...mistral, sliding_window: 512 }, blocks)).toBe(whole);
  expect(scratch({ ...mistral, sliding_window: null }, blocks)).toBeLessThan(whole);
});

test('reads the keys of GPT-2 and of encoders, which have no KV', () => {
  const gpt2 = { architectures: ['GPT2LMHeadModel'], model_type: 'gpt2', vocab_size: 50_257 };
  const about = { ...gpt2, n_embd: 768, n_head: 12, n_layer: 12, n_positions: 1024 };
  const roomy = { kvBytes: 1e12, maxRunning: 2 };
  expect(estimateMemory({ bases: [], config: about, tensors }, 'none', roomy)!.kvBytes).toBe(
    2 * 1024 * 12 * 2 * 768 * 4,
  );
  // Of these the first is its learned positions, which stay floats; the other's numbers have four bits and a scale.
  const floats = [
    { dtype: 'F32', shape: [1024, 768], count: 1 },
    { dtype: 'F32', shape: [768, 768], count: 1 },
  ];
  const q4 = estimateMemory({ bases: [], config: about, tensors: floats }, 'q4', roomy)!;
  expect(q4.weightBytes).toBe(1024 * 768 * 4 + (768 * 768) / 2 + (768 * 768) / 8);
  const { num_key_value_heads: _, tie_word_embeddings: __, ...sizes } = config;
  const bert = { ...sizes, architectures: ['BertModel'], model_type: 'bert' };
  const read = (kvBytes: number) =>
    estimateMemory({ bases: [], config: bert, tensors }, 'none', { ...budget, kvBytes })!;
  expect(read(1e6).kvBytes).toBe(0);
  // As many ids at once as the budget has room for, up to the longest text.
  const most = read(1e12).scratchBytes;
  expect(read(most).scratchBytes).toBe(most);
  expect(read(most / 2).scratchBytes).toBeLessThan(0.6 * most);
  expect(read(most / 2).scratchBytes).toBeGreaterThan(0.4 * most);
  expect(read(0).scratchBytes).toBeGreaterThan(0);
});

test('a decoder that makes vectors has no head, no draws, and KV of its longest text and a step', () => {
  const read = (task: 'embed' | 'generate', kvBytes: number, counts = tensors) =>
    estimateMemory({ bases: [], config, tensors: counts, task }, 'none', { kvBytes, maxRunning: 64 })!;
  const tokenBytes = 30 * 2 * 3 * 64 * 4;
  expect(read('embed', 1e12).kvBytes).toBe((8192 / 16 + 64) * 16 * tokenBytes);
  expect(read('embed', 1e12).kvBytes).toBeLessThan(read('generate', 1e12).kvBytes);
  // 40 rows of logits, and what 64 sequences have beside them, against twice as many rows.
  expect(read('embed', 1e8).scratchBytes).toBeLessThan(read('generate', 1e8).scratchBytes - 4 * 20 * 49_152);
});

test('tells nothing of what is not served, and no KV where there is no room for a block', () => {
  expect(estimate({ architectures: ['FalconForCausalLM'] })).toBeUndefined();
  expect(estimate({ logit_scale: 2 })).toBeUndefined();
  expect(estimateMemory({ bases: [], config, tensors }, 'none', { kvBytes: 1000, maxRunning: 2 })!.kvBytes).toBe(0);
});
