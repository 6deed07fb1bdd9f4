import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../model/runner.ts';
import type { CacheNews } from './cache-log.ts';
import { KvCache } from './kv-cache.ts';
import { SequenceKv } from './sequence-kv.ts';

const KEY = { root: '0', private: false };

/** Runs a sequence to its end: everything is computed, and stays cached as long as there is room. */
function runThrough(kv: KvCache, ids: readonly number[]): void {
  const held = new SequenceKv();
  kv.begin(KEY, held, kv.match(KEY, ids));
  kv.takeCopies();
  if (!kv.extend(held, ids.length)) throw new Error('no room');
  kv.end(KEY, held, ids, ids.length);
}

/** What one who hears the news believes is cached: prefixes by block. Throws for news that make no sense. */
class Listener {
  readonly held = new Map<number, string>();

  hear(news: readonly CacheNews[]): number {
    let blocks = 0;
    for (const one of news) {
      if (one.type === 'cleared') this.held.clear();
      else if (one.type === 'removed') {
        for (const block of one.blocks) if (!this.held.delete(block)) throw new Error(`${block} is not held`);
      } else {
        expect(one.ids).toHaveLength(one.blocks.length * BLOCK_TOKENS);
        let above = one.parent === undefined ? '' : this.held.get(one.parent);
        if (above === undefined) throw new Error(`the parent ${one.parent} is not held`);
        for (const [at, block] of one.blocks.entries()) {
          if (this.held.has(block)) throw new Error(`${block} is held already`);
          above = `${above}/${one.ids.slice(at * BLOCK_TOKENS, (at + 1) * BLOCK_TOKENS)}`;
          this.held.set(block, above);
        }
      }
      if (one.type !== 'cleared') blocks += one.blocks.length;
    }
    return blocks;
  }
}

function cached(kv: KvCache): Map<number, string> {
  const paths = new Map<number, string>();
  for (const { tokens, id, parent } of kv.prefixes.nodes()) {
    const above = parent!.id < 0 ? '' : paths.get(parent!.id)!;
    if (tokens.length === BLOCK_TOKENS) paths.set(id, `${above}/${tokens}`);
  }
  return paths;
}

const act = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ turns: fc.array(fc.nat(1), { maxLength: 4 }), length: fc.integer({ min: 1, max: 90 }) }),
  },
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 5 }) },
  { weight: 1, arbitrary: fc.constantFrom('flush' as const, 'begin' as const) },
);

it('tells every whole block that is cached and none that is not, however little is asked for at a time', () => {
  fc.assert(
    fc.property(fc.array(act, { minLength: 1, maxLength: 25 }), (acts) => {
      const kv = new KvCache([{ blocks: 9 }], { prefixCache: true });
      const { prefixes } = kv;
      runThrough(
        kv,
        Array.from({ length: 40 }, (_, at) => at),
      );
      expect(prefixes.log.take(99, prefixes.size)).toEqual([]);
      prefixes.beginLog();
      let listener = new Listener();
      for (const one of acts) {
        if (one === 'flush') kv.flush();
        else if (one === 'begin') {
          prefixes.beginLog();
          listener = new Listener();
        } else if (typeof one === 'number') {
          expect(listener.hear(prefixes.log.take(one, prefixes.size))).toBeLessThanOrEqual(one);
        } else
          runThrough(
            kv,
            Array.from({ length: one.length }, (_, at) => one.turns[Math.floor(at / 20)] ?? 2),
          );
      }
      for (let left = 40; !prefixes.log.empty; left--) {
        if (left === 0) throw new Error('no end of news');
        listener.hear(prefixes.log.take(2, prefixes.size));
      }
      expect(listener.held).toEqual(cached(kv));
    }),
    { numRuns: 300 },
  );
});
