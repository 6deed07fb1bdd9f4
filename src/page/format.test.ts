import { expect, test } from 'vitest';
import { bytes, count, duration, percent, timeOfDay } from './format.ts';

test('numbers in words', () => {
  expect([0, 999, 1_000, 1_234_567, 138_400_000, 999_600, 2e12, 3e15].map(bytes)).toEqual([
    '0 B',
    '999 B',
    '1.0 kB',
    '1.2 MB',
    '138 MB',
    '1.0 MB',
    '2.0 TB',
    '3000 TB',
  ]);
  expect([0, 59_400, 59_600, 3_599_000, 3_600_000, 12_345_678, 200_000_000].map(duration)).toEqual([
    '0 s',
    '59 s',
    '1 min 0 s',
    '59 min 59 s',
    '1 h 0 min',
    '3 h 25 min',
    '2 d 7 h',
  ]);
  expect([count(1_234_567), percent(0.256), percent(1)]).toEqual(['1,234,567', '26 %', '100 %']);
});

test('the first hour of a day is 00', () => {
  const midnight = new Date(2026, 0, 2, 0, 5, 9);
  expect(timeOfDay(midnight.getTime() / 1_000)).toBe('00:05:09');
});
