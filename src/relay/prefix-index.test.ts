import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CacheRemovedSchema, CacheStoredSchema } from '../contract/gen/node_relay_pb.ts';
import { BLOCK_TOKENS, blockHashes } from './block-hashes.ts';
import { Lie } from './lie.ts';
import type { NodePrefixes } from './node-prefixes.ts';
import { type CachedBlock, MAX_NODE_BLOCKS, PrefixIndex } from './prefix-index.ts';

const block = (...turns: number[]) => turns.flatMap((turn) => Array.from({ length: BLOCK_TOKENS }, () => turn));

function store(node: NodePrefixes, parent: number | undefined, blocks: number[], tokenIds: number[]): void {
  node.stored(create(CacheStoredSchema, { blocks, tokenIds, ...(parent === undefined ? {} : { parent }) }));
}

const remove = (node: NodePrefixes, ...blocks: number[]) => node.removed(create(CacheRemovedSchema, { blocks }));

describe('block hashes', () => {
  test('two prompts have as many in common as they have whole blocks', () => {
    const ids = fc.array(fc.nat(2), { maxLength: 70 });
    fc.assert(
      fc.property(ids, ids, ids, (common, ...rests) => {
        const [one, other] = rests.map((rest) => [...common, ...rest]) as [number[], number[]];
        let equal = 0;
        while (equal < Math.min(one.length, other.length) && one[equal] === other[equal]) equal++;
        const [a, b] = [blockHashes(one), blockHashes(other)];
        expect(a).toHaveLength(Math.floor(one.length / BLOCK_TOKENS));
        let alike = 0;
        while (alike < Math.min(a.length, b.length) && a[alike] === b[alike]) alike++;
        expect(alike).toBe(Math.floor(equal / BLOCK_TOKENS));
        // Once apart, apart for good.
        expect(a.slice(alike).some((hash) => b.includes(hash))).toBe(false);
      }),
    );
  });

  test('of 100,000 blocks that differ in little no two are alike, and all are whole numbers', () => {
    const hashes = new Set<number>();
    for (let at = 0; at < 100_000; at++) {
      const ids = Array.from({ length: BLOCK_TOKENS }, (_, i) => (i === at % 16 ? at >> 4 : 7));
      // At each place the first is the block of sevens with a 0 in it: all differ.
      const [hash] = blockHashes(ids) as [number];
      expect(Number.isSafeInteger(hash) && hash > 0).toBe(true);
      hashes.add(hash);
    }
    // Where the odd one is a 7 too, all sixteen are the same block.
    expect(hashes.size).toBe(100_000 - 15);
  });
});

describe('the prefix index', () => {
  test('knows how much of a prompt each node caches, or computes', () => {
    const index = new PrefixIndex();
    const [zero, one] = [index.open(0, 512, 100), index.open(1, 512, 100)];
    const prompt = blockHashes(block(1, 2, 3, 4));
    store(zero, undefined, [5, 3], block(1, 2));
    store(zero, 5, [7], block(9));
    store(one, undefined, [5], block(2));
    expect([zero.matched(prompt), one.matched(prompt)]).toEqual([2, 0]);
    store(zero, 3, [1], block(3));
    expect(zero.matched(prompt)).toBe(3);
    expect(zero.matched(prompt.slice(0, 1))).toBe(1);
    one.addPrompt(prompt);
    one.addPrompt(prompt.slice(0, 2));
    expect(one.matched(prompt)).toBe(4);
    one.dropPrompt(prompt);
    expect(one.matched(prompt)).toBe(2);
    remove(zero, 1);
    expect(zero.matched(prompt)).toBe(2);
    index.close(zero);
    expect([zero.matched(prompt), index.blocks]).toEqual([0, 1]);
  });

  test.each([
    ['no block', undefined, [], []],
    ['a block of too few tokens', undefined, [1], [1, 2, 3]],
    ['a token outside the vocabulary', undefined, [1], block(100)],
    ['a block beyond its pool', undefined, [32], block(1)],
    ['one twice in a list', undefined, [1, 1], block(1, 2)],
    ['one held already', undefined, [9], block(1)],
    ['one below what it does not hold', 4, [1], block(1)],
  ])('%s is a lie, and changes nothing', (_, parent, blocks, ids) => {
    const index = new PrefixIndex();
    const node = index.open(0, 512, 100);
    store(node, undefined, [9], block(8));
    expect(() => store(node, parent, blocks, ids)).toThrow(Lie);
    expect([node.blocks, index.blocks]).toEqual([1, 1]);
    expect(() => remove(node, 9, 9)).toThrow(Lie);
    index.close(node);
    expect(index.blocks).toBe(0);
  });

  test('what nodes tell is bounded: the one with most is forgotten, and may speak of what is not known', () => {
    const index = new PrefixIndex(10);
    const [small, greedy] = [index.open(0, 2 ** 31, 100), index.open(1, 2 ** 31, 100)];
    store(small, undefined, [0, 1, 2], block(1, 2, 3));
    for (let number = 0; number < 1_000; number++) store(greedy, undefined, [number], block(number % 100));
    expect(index.blocks).toBeLessThanOrEqual(10);
    expect(small.blocks).toBe(3);
    store(greedy, 3, [5_000], block(4));
    remove(greedy, 3, 4);
    greedy.clear();
    // From here on it is known what it holds.
    expect(() => remove(greedy, 3)).toThrow(Lie);
  });

  test('and so is what one tells, whatever its pool holds', () => {
    const index = new PrefixIndex();
    const node = index.open(0, 2 ** 31, 100);
    for (let from = 0; from < MAX_NODE_BLOCKS + 4_096; from += 4_096) {
      store(
        node,
        undefined,
        Array.from({ length: 4_096 }, (_, at) => from + at),
        Array(4_096 * BLOCK_TOKENS).fill(7),
      );
    }
    expect([node.blocks, index.blocks]).toEqual([0, 0]);
    store(node, undefined, [0], block(1));
    expect(node.matched(blockHashes(block(1, 2)))).toBe(1);
  });

  test('listeners hear which prefixes the fleet holds: gone is what the last node that had it has no more', () => {
    const step = fc.record({
      node: fc.nat(2),
      number: fc.nat(5),
      parent: fc.option(fc.nat(5)),
      turn: fc.nat(2),
      out: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const index = new PrefixIndex();
        const heard = new Set<number>();
        let cleared = 0;
        index.listeners.add({
          onStored: (_, blocks: readonly CachedBlock[]) => {
            for (const { hash } of blocks) heard.add(hash);
          },
          onRemoved: (_, hashes) => {
            for (const hash of hashes) expect(heard.delete(hash)).toBe(true);
          },
          onCleared: () => {
            cleared += heard.size === 0 ? 1 : Number.NaN;
          },
        });
        const nodes = [0, 1, 2].map((rank) => index.open(rank, 96, 10));
        for (const { node, number, parent, turn, out } of steps) {
          try {
            if (out) remove(nodes[node] as NodePrefixes, number);
            else store(nodes[node] as NodePrefixes, parent ?? undefined, [number], block(turn));
          } catch (error) {
            if (!(error instanceof Lie)) throw error;
          }
        }
        expect(heard).toEqual(new Set(nodes.flatMap((node) => [...node.cached].map(({ hash }) => hash))));
        index.clear();
        expect([heard.size, index.blocks, index.all, cleared]).toEqual([0, 0, [], 1]);
      }),
    );
  });
});
