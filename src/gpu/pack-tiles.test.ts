import fc from 'fast-check';
import { expect, test } from 'vitest';
import { exactHalf } from './pack-tiles.ts';
import { encodeHalf } from './testing/matrices.ts';
import { decodeHalf } from './weight-format.ts';

const bitsOf = (value: number) => new Uint32Array(Float32Array.of(value).buffer)[0]!;

test('a half that is normal or zero is found again, no other', () => {
  const wrong: number[] = [];
  for (let half = 0; half < 0x10000; half++) {
    const exponent = (half >> 10) & 31;
    const kept = exponent > 0 ? exponent < 31 : (half & 0x3ff) === 0;
    if (exactHalf(bitsOf(decodeHalf(half))) !== (kept ? half : -1)) wrong.push(half);
  }
  expect(wrong).toEqual([]);
});

test('what a half rounds is refused', () => {
  fc.assert(
    fc.property(fc.float({ noNaN: true, min: -70_000, max: 70_000 }), (value) => {
      const half = exactHalf(bitsOf(value));
      if (half >= 0) expect(decodeHalf(half)).toBe(value);
      else if (Math.abs(value) >= 2 ** -14 && Math.abs(value) < 65_504) {
        expect(decodeHalf(encodeHalf(value))).not.toBe(value);
      }
    }),
  );
});
