import { expect, test } from 'vitest';
import { CheapSlice } from './cheap-slice.ts';

test('thirty that only look cheap take a third of what a constraint may wait', () => {
  const slice = new CheapSlice(1_000, 200);
  let taken = 0;
  for (let i = 0; i < 30; i++) {
    taken += slice.ms;
    slice.overrun();
  }
  expect(taken).toBeLessThanOrEqual(10_000);
  expect(slice.ms).toBe(200);
});

test('those that are cheap get it back to what it was, never over', () => {
  const slice = new CheapSlice(1_000, 200);
  for (let i = 0; i < 30; i++) slice.overrun();
  expect(slice.isShort).toBe(true);
  for (let i = 0; i < 3; i++) slice.kept();
  expect([slice.ms, slice.isShort]).toEqual([1_000, false]);
});

test('a bound below the least is the least', () => {
  const slice = new CheapSlice(50, 200);
  slice.overrun();
  expect(slice.ms).toBe(50);
});
