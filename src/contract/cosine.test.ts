import { expect, test } from 'vitest';
import { cosine } from './cosine.ts';

test('a cosine says how alike two vectors are, whatever their lengths; 0 beside one of none', () => {
  expect(cosine([1, 0], [5, 0])).toBe(1);
  expect(cosine([1, 0], [0, 3])).toBe(0);
  expect(cosine([1, 1], [-2, -2])).toBeCloseTo(-1, 12);
  expect(cosine([0, 0], [1, 2])).toBe(0);
});
