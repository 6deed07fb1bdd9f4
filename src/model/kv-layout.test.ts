import { describe, expect, it, test } from 'vitest';
import {
  blockBytes,
  type KvGroup,
  kvGroups,
  mostChunkRows,
  poolBlocks,
  poolTokens,
  servedPositions,
} from './kv-layout.ts';

const GROUPS = [{ layers: [0, 1, 2], kvHeads: 2, headSize: 8, format: 'f32' }] as const;
const STEP = { maxRows: 20, maxSequences: 3 };

test('a block is 16 tokens of K and V', () => {
  expect(blockBytes(GROUPS[0])).toBe(16 * 2 * 2 * 8 * 4);
});

test('a number of blocks is kept or refused, a budget is cut to the binding limit', () => {
  const blocks = (request: object, limit = 20_480) => poolBlocks(GROUPS, { ...STEP, ...request }, limit);
  expect(blocks({ kvBlocks: 10 })).toEqual([10]);
  expect(() => blocks({ kvBlocks: 11 })).toThrow(/11 KV blocks of 2048 bytes .* 20480 bytes/);
  expect(blocks({ kvBudgetBytes: 3 * 2048 * 7 + 5 })).toEqual([7]);
  expect(blocks({ kvBudgetBytes: 1e9 })).toEqual([10]);
  expect(blocks({ kvBudgetBytes: 1e9, maxKvBlocks: 6 })).toEqual([6]);
});

test.each([
  [{ kvBlocks: 0 }, /kvBlocks must be a positive integer, got 0/],
  [{ kvBlocks: 1.5 }, /got 1.5/],
  [{ kvBudgetBytes: 6143 }, /6144 bytes, over the budget of 6143/],
  [{ kvBudgetBytes: Number.NaN }, /over the budget of NaN/],
  [{}, /neither/],
])('%j is refused', (request, message) => {
  expect(() => poolBlocks(GROUPS, { ...STEP, ...request }, 1e9)).toThrow(message);
});

const layer = (window?: number, kvHeads = 2) => ({
  attention: {
    ...{ heads: 4, kvHeads, headSize: 8, scale: 1, qkvBias: false, outputBias: false },
    ...(window === undefined ? {} : { window }),
  },
  feedForward: { kind: 'plain', size: 1, activation: 'relu', bias: false } as const,
  norms: 'before' as const,
  residualScale: 1,
});
const groupsOf = (...windows: (number | undefined)[]) => kvGroups({ layers: windows.map((w) => layer(w)) }, 1_000);

describe('KV groups', () => {
  it('are of layers with equal windows, those that see most first; a window as long as the context is none', () => {
    expect(groupsOf(64, undefined, 128, 64, 2_000).map(({ layers, window }) => [layers, window])).toEqual([
      [[1, 4], undefined],
      [[2], 128],
      [[0, 3], 64],
    ]);
    expect(groupsOf(64, 64)).toHaveLength(1);
    expect(kvGroups({ layers: [layer(undefined, 2), layer(undefined, 4)] }, 1_000)).toHaveLength(2);
  });

  it('are refused where there are more than a step has tables for', () => {
    expect(() => groupsOf(undefined, 1, 2, 3)).toThrow(/4 kinds of KV \(2 × 8, window none; .*window 1\), at most 3/);
  });

  it('share a budget: a windowed one has what all sequences can hold, the first the rest', () => {
    const groups = groupsOf(undefined, 64, 64, 64);
    const bytes = blockBytes(groups[0]!);
    // Three sequences, each 64 + 20 tokens and two blocks in part.
    const useful = 3 * (6 + 2);
    const blocks = (request: object) => poolBlocks(groups, { ...STEP, ...request }, 1e9);
    expect(blocks({ kvBudgetBytes: bytes * (3 * useful + 100) })).toEqual([100, useful]);
    // Where there is little, all have the same.
    expect(blocks({ kvBudgetBytes: bytes * (4 * 10 + 3) })).toEqual([10, 10]);
    expect(blocks({ kvBlocks: 50 })).toEqual([50, useful]);
    expect(blocks({ kvBlocks: 5 })).toEqual([5, 5]);
  });

  it('take no more than the budget, and leave less than a block of it', () => {
    const groups = groupsOf(undefined, 16, 16, 100, undefined);
    const perBlock = groups.map((group) => blockBytes(group) * group.layers.length);
    for (let budget = 5 * perBlock[0]!; budget < 200 * perBlock[0]!; budget += 999) {
      const blocks = poolBlocks(groups, { ...STEP, kvBudgetBytes: budget }, 1e9);
      const used = (more: number) =>
        blocks.reduce((sum, count, g) => {
          const grown = g === 0 ? count + more : count === blocks[0] ? Math.min(count + more, most[g]!) : count;
          return sum + grown * perBlock[g]!;
        }, 0);
      const most = [Infinity, 3 * (Math.ceil(120 / 16) + 2), 3 * (Math.ceil(36 / 16) + 2)];
      expect(used(0)).toBeLessThanOrEqual(budget);
      expect(used(1)).toBeGreaterThan(budget);
    }
  });

  it('serve any length once a window slides in its pool, with chunks that fit beside it', () => {
    expect(servedPositions([{ blocks: 5 }], 1_000)).toBe(80);
    expect(servedPositions([{ blocks: 100 }, { blocks: 3, window: 20 }], 1_000)).toBe(48);
    // 20 keys and 16 rows, wherever they begin: 4 blocks.
    expect(servedPositions([{ blocks: 100 }, { blocks: 4, window: 20 }], 1_000)).toBe(1_000);
    expect(mostChunkRows([{ blocks: 100 }, { blocks: 4, window: 20 }])).toBe(29);
    expect(mostChunkRows([{ blocks: 100 }])).toBe(Infinity);
    expect(poolTokens([{ blocks: 5 }, { blocks: 4, window: 20 }], 1_000)).toBe(80);
    expect(poolTokens([{ blocks: 4, window: 20 }], 1_000)).toBe(1_000);
    expect(poolTokens([{ blocks: 90, window: 20 }], 1_000)).toBe(1_440);
  });
});

test('a window and a chunk fit their pool wherever in a block they begin', () => {
  for (const window of [1, 2, 15, 16, 17, 40]) {
    for (let blocks = 1; blocks < 8; blocks++) {
      const rows = mostChunkRows([{ blocks, window }]);
      if (rows === Infinity) continue;
      for (let position = 0; position < 100; position++) {
        const first = Math.floor(Math.max(0, position + 1 - window) / 16);
        expect(Math.ceil((position + rows) / 16) - first).toBeLessThanOrEqual(blocks);
      }
    }
  }
});

// The type says that a window is left out, not undefined.
test('a group without a window has no key for it', () => {
  const [group] = groupsOf(undefined) as [KvGroup];
  expect('window' in group).toBe(false);
});
