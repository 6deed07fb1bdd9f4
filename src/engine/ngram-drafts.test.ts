import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NgramDrafts } from './ngram-drafts.ts';

/** The last time that the last four, three or two ids came before, found by looking at every position. */
function naive(ids: readonly number[], most: number) {
  for (const n of [4, 3, 2]) {
    for (let from = ids.length - 1; from >= n; from--) {
      const before = ids.slice(from - n, from);
      if (ids.length < n || before.join() !== ids.slice(-n).join()) continue;
      const all = [...ids];
      for (let i = 0; i < most; i++) all.push(all[from + i]!);
      return { ids: all.slice(ids.length), match: n };
    }
  }
  return undefined;
}

test('the index finds what a scan of everything finds, however ids come', () => {
  const id = fc.oneof(fc.nat(2), fc.constantFrom(2 ** 24, 151_935));
  let found = 0;
  fc.assert(
    fc.property(
      fc.array(fc.array(id, { maxLength: 12 }), { maxLength: 12 }),
      fc.integer({ min: 1, max: 20 }),
      (parts, most) => {
        const drafts = new NgramDrafts();
        const ids: number[] = [];
        for (const part of parts) {
          ids.push(...part);
          const draft = drafts.draft(ids, most);
          expect(draft).toEqual(naive(ids, most));
          if (draft) found++;
        }
      },
    ),
    { numRuns: import.meta.env.SHOAL_LONG === '1' ? 20_000 : 300 },
  );
  expect(found).toBeGreaterThan(300);
});

test('a long context costs no scan a token: a hundred thousand ids in well under a second', () => {
  const drafts = new NgramDrafts();
  const ids = [7];
  const startedAt = performance.now();
  for (let i = 0; i < 100_000; i++) {
    ids.push((i * 7_919) % 1_000);
    drafts.draft(ids, 8);
  }
  // A scan of each would read 5 · 10^9 ids.
  expect(performance.now() - startedAt).toBeLessThan(3_000);
});
