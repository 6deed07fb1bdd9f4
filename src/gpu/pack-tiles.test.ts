import fc from 'fast-check';
import { expect, test } from 'vitest';
import { exactHalf, packQuants } from './pack-tiles.ts';
import { encodeHalf } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
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

test.each([4, 8] as const)('quants of %i bits lie word by word in tiles of 64 rows', (bits) => {
  const row = fc.record({
    units: fc.integer({ min: 1, max: 3 }),
    rows: fc.integer({ min: 1, max: 5 }),
    seed: fc.nat(),
  });
  fc.assert(
    fc.property(row, ({ units, rows, seed }) => {
      const columns = 32 * units;
      const random = new Random(seed);
      const [low, high] = bits === 4 ? [0, 15] : [-128, 127];
      const quants = Int8Array.from({ length: rows * columns }, () => random.integer(low, high));
      const places = Int32Array.from({ length: rows }, (_, i) => (i === 1 ? -1 : (seed + 37 * i) % 128));
      const words = units * (bits / 4);
      const stretch = new Uint32Array(2 * 64 * words * 4);
      packQuants(stretch, places, columns, quants, bits);
      const perWord = 128 / bits;
      const expected = new Uint32Array(stretch.length);
      places.forEach((place, i) => {
        for (let column = 0; place >= 0 && column < columns; column++) {
          const within = column % perWord;
          const word = Math.floor(place / 64) * 64 * words + Math.floor(column / perWord) * 64 + (place % 64);
          const digit = quants[i * columns + column]! & (2 ** bits - 1);
          expected[4 * word + (within % 4)]! += digit * 2 ** (bits * Math.floor(within / 4));
        }
      });
      expect(stretch).toEqual(expected);
    }),
    { numRuns: 30 },
  );
});
