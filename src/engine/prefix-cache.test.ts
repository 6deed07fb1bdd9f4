import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../model/runner.ts';
import { KvCache } from './kv-cache.ts';
import { SequenceKv } from './sequence-kv.ts';

const KEY = { root: '0', private: false };
const on = { prefixCache: true };

/** Ids that often begin alike, and part at any place. */
const someIds = fc
  .tuple(fc.constantFrom(0, 1), fc.array(fc.nat(2), { maxLength: 5 }), fc.integer({ min: 1, max: 70 }))
  .map(([first, turns, length]) => {
    const at = (i: number) => turns[Math.floor(i / 13) % Math.max(1, turns.length)] ?? 0;
    return Array.from({ length }, (_, i) => (i === 0 ? first : at(i) + 10 * (i % 3)));
  });

/** Runs a sequence to its end: everything is computed, and stays cached. */
function runThrough(kv: KvCache, ids: readonly number[], key = KEY): number {
  const held = new SequenceKv();
  const found = kv.begin(key, held, kv.match(key, ids));
  kv.takeCopies();
  if (!kv.extend(held, ids.length)) throw new Error('no room');
  kv.end(key, held, ids, ids.length);
  return found;
}

describe('the prefix cache', () => {
  it('finds the longest beginning that was ever computed, to the token, while there is room for all', () => {
    fc.assert(
      fc.property(fc.array(someIds, { minLength: 1, maxLength: 12 }), (runs) => {
        const kv = new KvCache([{ blocks: 400 }], on);
        const past: number[][] = [];
        for (const ids of runs) {
          const common = (other: number[]) => {
            let n = 0;
            while (n < Math.min(other.length, ids.length) && other[n] === ids[n]) n++;
            return n;
          };
          const longest = Math.max(0, ...past.map(common));
          // The last token is always computed: its logits are wanted.
          expect(kv.match(KEY, ids).tokens).toBe(Math.min(longest, ids.length - 1));
          runThrough(kv, ids);
          past.push(ids);
        }
        expect(kv.available()).toBe(400);
      }),
    );
  });

  it('holds each whole block of tokens once, however often it was computed', () => {
    fc.assert(
      fc.property(fc.array(someIds, { minLength: 1, maxLength: 12 }), (runs) => {
        const kv = new KvCache([{ blocks: 400 }], on);
        for (const ids of [...runs, ...runs]) runThrough(kv, ids);
        const whole = new Set<string>();
        for (const ids of runs) {
          for (let end = BLOCK_TOKENS; end <= ids.length; end += BLOCK_TOKENS) whole.add(ids.slice(0, end).join());
        }
        const nodes = [...kv.prefixes.nodes()];
        expect(nodes.filter((node) => node.tokens.length === BLOCK_TOKENS).length).toBe(whole.size);
        for (const node of nodes) {
          for (const other of node.parent?.children ?? []) {
            const [short, long] = node.tokens.length < other.tokens.length ? [node, other] : [other, node];
            if (short !== long) expect(short.tokens.every((id, i) => id === long.tokens[i])).toBe(false);
          }
        }
      }),
    );
  });

  it('gives up the least recently used leaves first, and nothing that is locked', () => {
    const kv = new KvCache([{ blocks: 6 }], on);
    const line = (first: number, length: number) => Array.from({ length }, (_, i) => first + i);
    const [a, b, c] = [line(0, 32), line(100, 32), line(200, 32)];
    for (const ids of [a, b, c]) runThrough(kv, ids);
    expect(kv.available()).toBe(6);
    // b is used again and held; a is the oldest.
    const held = new SequenceKv();
    kv.begin(KEY, held, kv.match(KEY, [...b, 1]));
    const other = new SequenceKv();
    expect(kv.extend(other, 16)).toBe(true);
    expect(kv.match(KEY, [...a, 1]).tokens).toBe(16);
    expect(kv.extend(other, 48)).toBe(true);
    expect([a, b, c].map((ids) => kv.match(KEY, [...ids, 1]).tokens)).toEqual([0, 32, 16]);
    // Two are locked and three taken: one is left, and taking two takes none.
    expect(kv.extend(other, 80)).toBe(false);
    expect(other.tables[0]!.length).toBe(3);
    expect(kv.flush()).toBe(1);
    expect(kv.match(KEY, [...b, 1]).tokens).toBe(32);
  });

  it('keeps the tokens of other roots, and of private sequences, apart', () => {
    const kv = new KvCache([{ blocks: 20 }], on);
    const ids = Array.from({ length: 40 }, (_, i) => i);
    runThrough(kv, ids);
    expect(kv.match({ root: 'another adapter', private: false }, ids).tokens).toBe(0);
    expect(kv.match({ root: '0', private: true }, ids).tokens).toBe(0);
    runThrough(kv, [7, ...ids], { root: '0', private: true });
    expect(kv.match(KEY, [7, ...ids]).tokens).toBe(0);
  });

  it('matches nothing past a limit', () => {
    const kv = new KvCache([{ blocks: 20 }], on);
    const ids = Array.from({ length: 40 }, (_, i) => i);
    runThrough(kv, ids);
    for (const limit of [0, 1, 15, 16, 17, 31, 39, 40]) {
      expect(kv.match(KEY, ids, limit).tokens).toBe(Math.min(limit, 39));
    }
  });

  it('copies what matches a block in part, and never lets a source be another copy’s target', () => {
    const kv = new KvCache([{ blocks: 4 }], on);
    const ids = Array.from({ length: 24 }, (_, i) => i);
    runThrough(kv, ids);
    const [first, second] = [new SequenceKv(), new SequenceKv()];
    const forked = (at: number) => [...ids.slice(0, at), 99, 98];
    expect(kv.begin(KEY, first, kv.match(KEY, forked(20)))).toBe(20);
    expect(kv.begin(KEY, second, kv.match(KEY, forked(18)))).toBe(18);
    const copies = kv.takeCopies();
    expect(copies.length).toBe(2);
    expect(copies[0]!.from).toBe(copies[1]!.from);
    expect(new Set([...copies.map(({ to }) => to), copies[0]!.from]).size).toBe(3);
    // Nothing is left for a third: it starts with the whole blocks alone.
    const third = new SequenceKv();
    expect(kv.begin(KEY, third, kv.match(KEY, forked(19)))).toBe(16);
    expect(kv.takeCopies()).toEqual([]);
  });

  it('forgets a context of 131,072 tokens', () => {
    const kv = new KvCache([{ blocks: 8_192 }], on);
    const ids = Array.from({ length: 8_192 * BLOCK_TOKENS }, (_, i) => i);
    runThrough(kv, ids);
    expect(kv.match(KEY, ids).path).toHaveLength(8_191);
    kv.forget(KEY);
    expect(kv.match(KEY, ids).tokens).toBe(0);
    expect(kv.free()).toBe(8_192);
  });

  it('forgets a copy whose sequence gives its blocks back before it is made', () => {
    const kv = new KvCache([{ blocks: 4 }], on);
    const ids = Array.from({ length: 24 }, (_, i) => i);
    runThrough(kv, ids);
    const held = new SequenceKv();
    kv.begin(KEY, held, kv.match(KEY, [...ids.slice(0, 20), 99]));
    kv.end(KEY, held, [...ids.slice(0, 20), 99], 16);
    expect(kv.takeCopies()).toEqual([]);
    expect(kv.available()).toBe(4);
  });
});

it('borrows from a block that is itself still to be copied', () => {
  const kv = new KvCache([{ blocks: 8 }], on);
  const ids = Array.from({ length: 24 }, (_, i) => i);
  runThrough(kv, ids);
  const [first, second] = [new SequenceKv(), new SequenceKv()];
  kv.begin(KEY, first, kv.match(KEY, [...ids.slice(0, 20), 99, 1]));
  const match = kv.match(KEY, [...ids.slice(0, 18), 98, 1]);
  expect(kv.begin(KEY, second, { ...match, tail: undefined, tokens: 16 }, { from: first, tokens: 18 })).toBe(18);
  const copies = kv.takeCopies();
  expect(copies.map(({ from }) => from)).toEqual([copies[0]!.from, copies[0]!.from]);
});

it('tells a sequence whose lender gave way that it has its whole blocks only', () => {
  const kv = new KvCache([{ blocks: 8 }], on);
  const ids = Array.from({ length: 24 }, (_, i) => i);
  const [lender, borrower] = [new SequenceKv(), new SequenceKv()];
  kv.extend(lender, 24);
  kv.share(KEY, lender, ids, 16);
  let left: number | undefined;
  const match = kv.match(KEY, [...ids.slice(0, 20), 99]);
  const told = (tokens: number) => {
    left = tokens;
  };
  expect(kv.begin(KEY, borrower, match, { from: lender, tokens: 20 }, told)).toBe(20);
  kv.end(KEY, lender, ids, 24);
  expect(left).toBe(16);
  expect(kv.takeCopies()).toEqual([]);
});
