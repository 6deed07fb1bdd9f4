import fc from 'fast-check';
import { expect, test } from 'vitest';
import { quantValues } from './quant-format.ts';
import { nearestHalf, quantisationError, quantise, quantisedSource } from './quantise.ts';
import { encodeHalf, randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { decodeHalf } from './weight-format.ts';

const blocks = fc
  .tuple(fc.integer({ min: -16, max: 12 }), fc.float({ noNaN: true, min: -2, max: 2 }))
  .chain(([power, mean]) =>
    fc.array(
      fc.float({ noNaN: true, min: -1, max: 1 }).map((value) => Math.fround((value + mean) * 2 ** power)),
      { minLength: 32, maxLength: 32 },
    ),
  );

test.each(['q8', 'q4'] as const)('%s: no value is off by more than the bound', (quantisation) => {
  fc.assert(
    fc.property(blocks, (values) => {
      const rows = quantise(Float32Array.from(values), quantisation);
      const bound = quantisationError(Math.min(...values), Math.max(...values), quantisation);
      quantValues(rows, 32).forEach((value, i) => {
        expect(Math.abs(value - values[i]!)).toBeLessThanOrEqual(bound);
      });
    }),
    { numRuns: 300 },
  );
});

test.each(['q8', 'q4'] as const)('%s: what it gives is quantised to itself', (quantisation) => {
  const values = new Random(3).normals(64 * 32);
  const once = quantise(values, quantisation);
  const twice = quantise(quantValues(once, 32), quantisation);
  // The largest quant of a block may fall short of 127 by the scale's rounding, never by more than one.
  const error = quantValues(twice, 32).map((value, i) => Math.abs(value - quantValues(once, 32)[i]!));
  const step = Math.max(...once.scales);
  expect(Math.max(...error)).toBeLessThanOrEqual(step);
});

test('constant blocks, zeros among them', () => {
  for (const value of [0, 1, -3.5]) {
    for (const quantisation of ['q8', 'q4'] as const) {
      const back = quantValues(quantise(new Float32Array(32).fill(value), quantisation), 32);
      back.forEach((b) => {
        expect(Math.abs(b - value)).toBeLessThanOrEqual(Math.abs(value) * 2 ** -10);
      });
    }
  }
});

test('halves are the nearest, ties to even', () => {
  const random = new Random(4);
  for (let i = 0; i < 2_000; i++) {
    const value = Math.fround(random.normal() * 2 ** random.integer(-13, 14));
    expect(nearestHalf(value)).toBe(decodeHalf(encodeHalf(value)));
  }
  expect([nearestHalf(2 ** -25), nearestHalf(3 * 2 ** -25), nearestHalf(1e6), nearestHalf(-1e6)]).toEqual([
    0,
    2 ** -23,
    65_504,
    -65_504,
  ]);
});

test('a source is quantised row by row, or left as it is where its columns are no whole blocks', async () => {
  const { source, values } = randomMatrix(new Random(5), 7, 64, 'bf16');
  const quantised = quantisedSource(source as Parameters<typeof quantisedSource>[0], 64, 'q4');
  if (!('readRows' in quantised)) throw new Error('it is not quantised');
  expect(await quantised.readRows(2, 3)).toEqual(quantise(values.slice(2 * 64, 5 * 64), 'q4'));
  const odd = randomMatrix(new Random(5), 7, 44, 'f16').source as Parameters<typeof quantisedSource>[0];
  expect(quantisedSource(odd, 44, 'q8')).toBe(odd);
});
