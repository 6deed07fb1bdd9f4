import { expect, test } from 'vitest';
import { largestError } from './kernel-bench.ts';

test('the largest error of numbers with a NaN among them is infinite, wherever it is', () => {
  const expected = Float32Array.of(1, 2, 3);
  expect(largestError(Float32Array.of(1, 2, 3), expected)).toBe(0);
  expect(largestError(Float32Array.of(1, 5, 3), expected)).toBe(1);
  for (let i = 0; i < expected.length; i++) {
    const actual = expected.slice();
    actual[i] = Number.NaN;
    expect(largestError(actual, expected), `number ${i}`).toBe(Number.POSITIVE_INFINITY);
  }
  expect(largestError(expected.slice(1), expected)).toBe(Number.POSITIVE_INFINITY);
});
