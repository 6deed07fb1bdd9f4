import { describe, expect, it } from 'vitest';
import { NO_BLOCK } from '../model/runner.ts';
import { KvCache } from './kv-cache.ts';
import { SequenceKv } from './sequence-kv.ts';

const KEY = { root: '0', private: false };
const on = { prefixCache: true };
/** A group that sees all, and one of a window of 32. */
const MIXED = [{ blocks: 40 }, { blocks: 8, window: 32 }];
const ids = Array.from({ length: 200 }, (_, i) => i % 50);

/** Computes `length` tokens in chunks of 16, sharing them as they are done; the sequence goes on. */
function compute(kv: KvCache, held: SequenceKv, length: number, from = 0): void {
  for (let at = from; at < length; at += 16) {
    kv.slide(KEY, held, at);
    if (!kv.extend(held, Math.min(length, at + 16))) throw new Error('no room');
    kv.share(KEY, held, ids, Math.min(length, at + 16));
  }
}

function runThrough(kv: KvCache, length: number): void {
  const held = new SequenceKv();
  const found = kv.begin(KEY, held, kv.match(KEY, ids.slice(0, length)));
  kv.takeCopies();
  compute(kv, held, length, found - (found % 16));
  kv.end(KEY, held, ids, length);
}

describe('a windowed group', () => {
  it('gives back what its window has passed, and holds the rest', () => {
    const kv = new KvCache(MIXED, { prefixCache: false });
    const held = new SequenceKv();
    compute(kv, held, 144);
    kv.slide(KEY, held, 144);
    // Position 144 sees 113 … 144, of blocks 7 to 9.
    expect(held.tables[0]).toHaveLength(9);
    expect(held.tables[1]!.map((block) => block === NO_BLOCK)).toEqual([...new Array(7).fill(true), false, false]);
    expect([kv.free(0), kv.free(1)]).toEqual([31, 6]);
    kv.end(KEY, held, ids, 144);
    expect([kv.free(0), kv.free(1)]).toEqual([40, 8]);
  });

  it('keeps blocks in the cache until they are needed, the first that were passed going first', () => {
    const kv = new KvCache(MIXED, on);
    runThrough(kv, 128);
    expect([kv.available(0), kv.available(1)]).toEqual([40, 8]);
    expect(kv.match(KEY, [...ids.slice(0, 128), 99]).tokens).toBe(128);
    // All eight are cached; another takes three of them.
    const other = new SequenceKv();
    expect(kv.extend(other, 48)).toBe(true);
    expect(kv.match(KEY, [...ids.slice(0, 128), 99]).tokens).toBe(128);
    expect(kv.match(KEY, [...ids.slice(0, 96), 99]).tokens).toBe(96);
    // Position 64 sees 33 … 64: block 2 is gone.
    expect(kv.match(KEY, [...ids.slice(0, 64), 99]).tokens).toBe(0);
    expect(kv.match(KEY, [...ids.slice(0, 80), 99]).tokens).toBe(80);
    kv.end(KEY, other, [], 0);
  });

  it('matches less where the end of a prefix lacks blocks, and nothing that is not whole in every group', () => {
    const kv = new KvCache(MIXED, on);
    runThrough(kv, 40);
    expect(kv.match(KEY, [...ids.slice(0, 38), 99]).tokens).toBe(38);
    const other = new SequenceKv();
    // Five blocks are free; the sixth is the part of a block at the end, the seventh the first.
    expect(kv.extend(other, 96)).toBe(true);
    expect(kv.match(KEY, [...ids.slice(0, 40), 99]).tokens).toBe(32);
    expect(kv.extend(other, 112)).toBe(true);
    expect(kv.match(KEY, [...ids.slice(0, 40), 99]).tokens).toBe(0);
    kv.end(KEY, other, [], 0);
    runThrough(kv, 40);
    expect(kv.match(KEY, [...ids.slice(0, 40), 99]).tokens).toBe(40);
  });

  it('locks what a sequence sees, not what is behind it', () => {
    const kv = new KvCache(MIXED, on);
    runThrough(kv, 128);
    const held = new SequenceKv();
    const match = kv.match(KEY, [...ids.slice(0, 112), 99]);
    expect(kv.hasRoom(KEY, match, 113, 16, 0)).toBe(true);
    expect(kv.begin(KEY, held, match)).toBe(112);
    expect(held.tables[1]!.slice(0, 5)).toEqual(new Array(5).fill(NO_BLOCK));
    expect([kv.available(0), kv.available(1)]).toEqual([33, 6]);
    // It goes on, and the window passes what it locked.
    kv.slide(KEY, held, 112 + 15);
    expect(kv.available(1)).toBe(7);
    expect(kv.extend(held, 160)).toBe(true);
    expect(kv.available(1)).toBe(4);
    kv.end(KEY, held, [...ids.slice(0, 112), 99], 112);
    expect([kv.available(0), kv.available(1)]).toEqual([40, 8]);
  });

  it('takes nothing of any pool where one has too little', () => {
    const kv = new KvCache(MIXED, on);
    const held = new SequenceKv();
    expect(kv.extend(held, 9 * 16)).toBe(false);
    expect([kv.free(0), kv.free(1), held.tables[0]!.length]).toEqual([40, 8, 0]);
    expect(kv.roomIn(held)).toBe(8 * 16);
    // The fullest pool counts, in blocks of the first.
    expect(kv.extend(held, 4 * 16)).toBe(true);
    expect(kv.usedBlocks).toBe(20);
  });

  it('copies a block of each group for what matches in part', () => {
    const kv = new KvCache(MIXED, on);
    runThrough(kv, 72);
    const held = new SequenceKv();
    expect(kv.begin(KEY, held, kv.match(KEY, [...ids.slice(0, 70), 99]))).toBe(70);
    const copies = kv.takeCopies();
    expect(copies).toHaveLength(1);
    expect(copies[0]!.to).toBe(held.tables[0]![4]);
    expect(copies[0]!.more).toEqual([{ from: expect.any(Number), to: held.tables[1]![4] }]);
  });

  it('keeps what a borrower would go on from, should its copy come to nothing', () => {
    const kv = new KvCache([{ blocks: 40 }, { blocks: 8, window: 16 }], on);
    const [lender, borrower] = [new SequenceKv(), new SequenceKv()];
    compute(kv, lender, 40);
    let left = 0;
    const told = (tokens: number) => {
      left = tokens;
    };
    const match = kv.match(KEY, [...ids.slice(0, 40), 99]);
    expect(kv.begin(KEY, borrower, match, { from: lender, tokens: 40 }, told)).toBe(40);
    kv.slide(KEY, borrower, 40);
    kv.end(KEY, lender, ids, 40);
    // Position 32 sees 17 … 32, of block 1.
    expect(left).toBe(32);
    expect(borrower.tables[1]![1]).not.toBe(NO_BLOCK);
  });
});

it('lets a cached part of a block go where there is no block for its copy', () => {
  const kv = new KvCache([{ blocks: 6 }], on);
  runThrough(kv, 90);
  const held = new SequenceKv();
  expect(kv.begin(KEY, held, kv.match(KEY, [...ids.slice(0, 88), 99]))).toBe(80);
  expect(kv.extend(held, 89)).toBe(true);
  expect(kv.takeCopies()).toEqual([]);
});

describe('a cache of windowed groups alone', () => {
  const ALL = [{ blocks: 6, window: 32 }];

  it('keeps the way to what can be matched, without its blocks', () => {
    const kv = new KvCache(ALL, on);
    runThrough(kv, 128);
    expect(kv.prefixes.size).toBe(8);
    expect(kv.cachedBlocks).toBe(6);
    expect(kv.match(KEY, [...ids.slice(0, 128), 99]).tokens).toBe(128);
    // Once the last are gone too, nothing is left of it.
    const other = new SequenceKv();
    expect(kv.extend(other, 96)).toBe(true);
    expect([kv.prefixes.size, kv.cachedBlocks]).toEqual([0, 0]);
    kv.end(KEY, other, [], 0);
    expect(kv.free()).toBe(6);
  });

  it('tells of no more than its pool has numbers for, and of nothing below what it does not tell', () => {
    const kv = new KvCache(ALL, on);
    kv.prefixes.beginLog();
    runThrough(kv, 128);
    const news = kv.prefixes.log.take(99, kv.prefixes.size);
    expect(news).toEqual([{ type: 'stored', parent: undefined, blocks: [0, 1, 2, 3, 4, 5], ids: ids.slice(0, 96) }]);
    expect(kv.flush()).toBe(6);
    expect(kv.prefixes.log.take(99, kv.prefixes.size)).toEqual([{ type: 'cleared' }]);
  });
});
