import { describe, expect, test } from 'vitest';
import { Random } from '../gpu/testing/random.ts';
import { Acceptance } from './acceptance.ts';
import { Speculation } from './speculation.ts';

/** What a step of so many rows takes; one row alone, with what overlaps, takes 1. */
type Adapter = (rows: number) => number;
const ADAPTERS: Record<string, Adapter> = {
  'bound by memory': (rows) => 0.97 + 0.03 * rows,
  'that pays half for each row more': (rows) => 0.5 + 0.5 * rows,
  'bound by computing': (rows) => rows,
  'that takes steps of rows': (rows) => Math.ceil(rows / 4),
};
const LONG = import.meta.env.SHOAL_LONG === '1';
const TOKENS = LONG ? 4_000 : 800;
const CHANCES = LONG ? [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1] : [0, 0.4, 0.9];
const MATCHES = LONG ? [0.05, 0.3, 1] : [0.2, 1];
/** A step that was waited for costs so much more: nothing overlapped. */
const BUBBLE = 0.1;

/** So many tokens of `sequences` sequences, whose drafts are right with `chance`, and there with `matches`; against none. */
function speed(adapter: Adapter, sequences: number, chance: number, matches: number, seed = 1): number {
  const random = new Random(seed);
  const speculation = new Speculation();
  const acceptances = Array.from({ length: sequences }, () => new Acceptance());
  const noise = () => 1 + 0.2 * (random.uniform() - 0.5);
  const plain = adapter(sequences);
  let [time, tokens] = [0, 0];
  for (let waited = false; tokens < TOKENS * sequences; ) {
    const ids = Array.from({ length: 16 }, () => 0);
    const candidates = acceptances.flatMap((acceptance) =>
      random.uniform() < matches ? [{ acceptance, draft: { ids, match: 3 } }] : [],
    );
    const lengths = speculation.lengths(sequences, 256 - sequences, candidates);
    speculation.planned(lengths !== undefined);
    if (!lengths) {
      const ms = (plain + (waited ? BUBBLE : 0)) * noise();
      speculation.plainStep({ sequences, steps: 1, ms, waited });
      time += ms;
      tokens += sequences;
      waited = false;
      continue;
    }
    let [rows, made] = [sequences, sequences];
    lengths.forEach((length, i) => {
      if (length === 0) return;
      let right = 0;
      while (right < length && random.uniform() < chance) right++;
      speculation.verified(candidates[i]!, length, right);
      rows += length;
      made += right;
    });
    const ms = (adapter(rows) + BUBBLE) * noise();
    speculation.draftedStep({ sequences, rows, tokens: made, ms });
    time += ms;
    tokens += made;
    waited = true;
  }
  return ((tokens / sequences) * plain) / time;
}

describe.each(Object.entries(ADAPTERS))('on an adapter %s', (name, adapter) => {
  test.each([1, 8])('%i sequences are never slower than 0.95 times without drafts', (sequences) => {
    for (const chance of CHANCES) {
      for (const matches of MATCHES) {
        const times = speed(adapter, sequences, chance, matches, 1 + Math.round(chance * 10 + matches * 100));
        expect([sequences, chance, matches, times > 0.95 ? 'fast' : times]).toEqual([
          sequences,
          chance,
          matches,
          'fast',
        ]);
      }
    }
  });

  test.runIf(name === 'bound by memory' || name === 'that takes steps of rows')('drafts that are right win', () => {
    expect(speed(adapter, 1, 0.95, 1)).toBeGreaterThan(name === 'bound by memory' ? 4 : 2);
    expect(speed(adapter, 1, 0.8, 1)).toBeGreaterThan(1.5);
    if (name === 'bound by memory') expect(speed(adapter, 8, 0.9, 1)).toBeGreaterThan(1.5);
  });
});

test('those without a draft do not wait for those with one', () => {
  const speculation = new Speculation();
  for (let i = 0; i < 200; i++) speculation.plainStep({ sequences: 2, steps: 1, ms: 2, waited: false });
  for (let rows = 3; rows < 12; rows++) {
    for (let i = 0; i < 4; i++) speculation.draftedStep({ sequences: 2, rows, tokens: rows, ms: rows * 0.6 });
  }
  const acceptance = new Acceptance();
  acceptance.add(24, 0);
  const candidate = { acceptance, draft: { ids: [1, 2, 3, 4, 5, 6, 7, 8], match: 4 } };
  expect(speculation.lengths(2, 100, [candidate, candidate])).toBeDefined();
  const alone = speculation.lengths(2, 100, [candidate]);
  // Half a step's time more for one of the two, and for the other too: at most what finding out may cost.
  expect(alone === undefined || alone[0]! <= 3).toBe(true);
});
