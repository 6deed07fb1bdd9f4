import { expect, test } from 'vitest';
import { estimateMemory } from './memory-estimate.ts';

/** What a relay tells of SmolLM2-135M in Q4_1, whose page counted 98.3 MB of weights and 399.6 MB in all. */
const config = {
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
