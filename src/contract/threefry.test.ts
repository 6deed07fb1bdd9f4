import { expect, test } from 'vitest';
import { threefry } from './threefry.ts';

// Known answers of Random123's kat_vectors for threefry2x32 with 20 rounds.
test.each([
  [
    [0, 0],
    [0, 0],
    [0x6b200159, 0x99ba4efe],
  ],
  [
    [0xffffffff, 0xffffffff],
    [0xffffffff, 0xffffffff],
    [0x1cb996fc, 0xbb002be7],
  ],
  [
    [0x13198a2e, 0x03707344],
    [0x243f6a88, 0x85a308d3],
    [0xc4923a9c, 0x483df7a0],
  ],
] as [[number, number], [number, number], [number, number]][])('key %j, counter %j', (key, counter, expected) => {
  expect(threefry(key, counter)).toEqual(expected);
});
