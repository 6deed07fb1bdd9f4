import { expect, test } from 'vitest';
import { blockBytes, poolBlocks } from './kv-layout.ts';

const GROUPS = [{ layers: [0, 1, 2], kvHeads: 2, headSize: 8, format: 'f32' }] as const;

test('a block is 16 tokens of K and V', () => {
  expect(blockBytes(GROUPS[0])).toBe(16 * 2 * 2 * 8 * 4);
});

test('a number of blocks is kept or refused, a budget is cut to the binding limit', () => {
  expect(poolBlocks(GROUPS, { kvBlocks: 10 }, 20_480)).toBe(10);
  expect(() => poolBlocks(GROUPS, { kvBlocks: 11 }, 20_480)).toThrow(/11 KV blocks of 2048 bytes .* 20480 bytes/);
  expect(poolBlocks(GROUPS, { kvBudgetBytes: 3 * 2048 * 7 + 5 }, 20_480)).toBe(7);
  expect(poolBlocks(GROUPS, { kvBudgetBytes: 1e9 }, 20_480)).toBe(10);
  expect(poolBlocks(GROUPS, { kvBudgetBytes: 1e9, maxKvBlocks: 6 }, 20_480)).toBe(6);
});

test.each([
  [{ kvBlocks: 0 }, /kvBlocks must be a positive integer, got 0/],
  [{ kvBlocks: 1.5 }, /got 1.5/],
  [{ kvBudgetBytes: 6143 }, /6144 bytes, over the budget of 6143/],
  [{ kvBudgetBytes: Number.NaN }, /over the budget of NaN/],
  [{}, /neither/],
])('%j is refused', (request, message) => {
  expect(() => poolBlocks(GROUPS, request, 1e9)).toThrow(message);
});
