import { describe, expect, test } from 'vitest';
import { Acceptance } from './acceptance.ts';
import { DraftAccount } from './draft-account.ts';
import { Speculation } from './speculation.ts';

const PLAIN_MS = 10;

describe('what drafts may lose', () => {
  /** Plain steps till the next stretch may begin. */
  const steps = (account: DraftAccount) => {
    let count = 0;
    for (; !account.mayBegin(PLAIN_MS, 0); count++) account.plain(1, PLAIN_MS, PLAIN_MS, 0);
    return count;
  };

  test('is a share of the time without them, and each loss in a row doubles the wait', () => {
    const account = new DraftAccount();
    const first = steps(account);
    expect(first).toBeGreaterThan(30);
    let [lost, plain] = [0, first];
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      // One step for the time of six.
      account.drafting(6 * PLAIN_MS, PLAIN_MS, PLAIN_MS);
      expect(account.mayGoOn(PLAIN_MS)).toBe(false);
      account.ended(-5 * PLAIN_MS);
      lost += 5;
      waits.push(steps(account));
      plain += waits.at(-1)!;
    }
    expect(lost / plain).toBeLessThan(0.03);
    expect(waits[0]).toBeGreaterThan(5 / 0.031);
    for (let i = 1; i < 6; i++) expect(waits[i]! / waits[i - 1]!).toBeCloseTo(2, 1);
    expect(waits[7]).toBe(waits[6]);
  });

  test('is saved up for a few steps only; what is won is held against later losses as far', () => {
    const account = new DraftAccount();
    for (let i = 0; i < 100_000; i++) account.plain(1, PLAIN_MS, PLAIN_MS, 0);
    for (let i = 0; i < 10; i++) account.drafting(PLAIN_MS, 5 * PLAIN_MS, PLAIN_MS);
    let count = 0;
    for (; account.mayGoOn(PLAIN_MS); count++) account.drafting(2 * PLAIN_MS, PLAIN_MS, PLAIN_MS);
    expect(count).toBeLessThan(6);
  });

  test('stretches that win end too, so that plain decoding is measured anew', () => {
    const account = new DraftAccount();
    steps(account);
    let count = 0;
    for (; account.mayGoOn(PLAIN_MS); count++) account.drafting(PLAIN_MS, 3 * PLAIN_MS, PLAIN_MS);
    account.ended(2 * count * PLAIN_MS);
    expect(count).toBeLessThan(1_000);
    expect(steps(account)).toBeGreaterThan(8);
    expect(steps(account)).toBe(0);
  });
});

/** Two sequences; steps of more rows take `rowMs` for each. */
function speculating(rowMs: number): Speculation {
  const speculation = new Speculation();
  for (let i = 0; i < 200; i++) {
    speculation.planned(false);
    speculation.measured({ ...ROWS, draftRows: 0, steps: 1, tokens: 2, ms: PLAIN_MS });
  }
  for (let draftRows = 1; draftRows <= 8; draftRows++) {
    speculation.planned(true);
    const ms = PLAIN_MS + rowMs * draftRows;
    speculation.measured({ ...ROWS, draftRows, steps: 1, tokens: 2 + draftRows, ms });
  }
  return speculation;
}

const ROWS = { sequences: 2, repeatable: true };

test('those without a draft do not wait for those with one', () => {
  for (const rowMs of [0.1, 2.5]) {
    const speculation = speculating(rowMs);
    const acceptance = new Acceptance();
    acceptance.add(24, 0);
    const candidate = { acceptance, draft: { ids: [1, 2, 3, 4, 5, 6, 7, 8], match: 4 } };
    expect(speculation.lengths(ROWS, 100, [candidate, candidate])).toBeDefined();
    const alone = speculation.lengths(ROWS, 100, [candidate]);
    expect(alone === undefined ? 'none' : alone[0]).toEqual(rowMs > 1 ? 'none' : 8);
  }
});

test('what is slower for drafts is not taken for plain decoding: it ends them', () => {
  const speculation = speculating(0.1);
  expect(speculation.hot).toBe(true);
  let steps = 0;
  // Steps by themselves, which take five times as long.
  for (; speculation.hot && steps < 100; steps++) {
    const usual = speculation.measured({ ...ROWS, draftRows: 0, steps: 1, tokens: 2, ms: 5 * PLAIN_MS });
    expect(usual).toBe(false);
  }
  expect(steps).toBeLessThan(4);
});
