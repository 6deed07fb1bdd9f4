import Ajv from 'ajv';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { multiplesExpression } from './multiples.ts';

const NONE = { minimum: undefined, exclusiveMinimum: undefined, maximum: undefined, exclusiveMaximum: undefined };

function textsOf(...args: Parameters<typeof multiplesExpression>): string[] {
  try {
    return [...multiplesExpression(...args).matchAll(/"([^"]*)"/g)].map(([, text]) => text!);
  } catch (error) {
    expect((error as Error).message).toBe('no number is within its bounds');
    return [];
  }
}

it('has exactly the integers that are multiples within bounds', () => {
  const small = fc.integer({ min: -60, max: 60 });
  const property = fc.property(
    small,
    fc.nat(90),
    fc.integer({ min: 1, max: 30 }),
    fc.boolean(),
    (low, more, by, open) => {
      const bounds = open
        ? { exclusiveMinimum: low, exclusiveMaximum: low + more }
        : { minimum: low, maximum: low + more };
      const all = Array.from({ length: more + 1 }, (_, i) => low + i);
      const wanted = all.filter((n) => n % by === 0 && (!open || (n > low && n < low + more)));
      expect(textsOf({ ...NONE, ...bounds }, by, true)).toEqual(wanted.map((n) => String(n + 0)));
    },
  );
  fc.assert(property, { numRuns: 300 });
});

it('has no fraction that division of doubles refuses, and those that it takes', () => {
  expect(textsOf({ ...NONE, minimum: -1, maximum: 1 }, 0.5, false)).toEqual(['-1', '-0.5', '0', '0.5', '1']);
  expect(textsOf({ ...NONE, minimum: 0, maximum: 1 }, 0.5, true)).toEqual(['0', '1']);
  // 0.3 / 0.1 is 2.9999999999999996.
  expect(textsOf({ ...NONE, minimum: 0, maximum: 0.5 }, 0.1, false)).toEqual(['0', '0.1', '0.2', '0.4', '0.5']);
  expect(textsOf({ ...NONE, minimum: 0, exclusiveMaximum: 3e-7 }, 1e-7, false)).toEqual([
    '0',
    '0.0000001',
    '0.0000002',
  ]);
});

it('has what a validator takes, and nothing else', () => {
  const ajv = new Ajv({ strict: false });
  const numbers = (max: number) =>
    fc.oneof(
      fc.integer({ max, min: -max }),
      ...[8, 10].map((of) => fc.integer({ max, min: -max }).map((n) => n / of)),
      fc.double({ max, min: -max, noNaN: true }),
      fc.constantFrom(1e15, -1e15, 0, -0, 1e-9),
    );
  const bys = fc.oneof(
    fc.integer({ min: 1, max: 400 }).map((n) => n / 100),
    fc.constantFrom(1e-7, 0.1, 7, 1e6, 1 / 3, 2.5e-5),
    fc.double({ min: 1e-3, max: 10, noNaN: true }),
  );
  const mores = fc.oneof(fc.nat(50), fc.double({ min: 0, max: 5, noNaN: true }));
  const property = fc.property(
    numbers(300),
    mores,
    bys,
    fc.boolean(),
    fc.boolean(),
    (low, more, by, open, areWhole) => {
      const bounds = open
        ? { exclusiveMinimum: low, maximum: low + more }
        : { minimum: low, exclusiveMaximum: low + more };
      fc.pre(more / by < 4_000 && Math.abs(low / by) < 1e15);
      const isRight = ajv.compile({ type: areWhole ? 'integer' : 'number', multipleOf: by, ...bounds });
      const texts = textsOf({ ...NONE, ...bounds }, by, areWhole);
      expect(texts.filter((text) => !isRight(JSON.parse(text)))).toEqual([]);
      // Where a product is exact to the digit, it is told.
      if (String(by).length > 8 || Math.abs(low) > 1e6) return;
      const values = new Set(texts.map(Number));
      for (let n = Math.ceil(low / by) - 1; n <= (low + more) / by + 1; n++) {
        const value = Number((n * by).toPrecision(12)) + 0;
        if (isRight(value)) expect(values).toContain(value);
      }
    },
  );
  fc.assert(property, { numRuns: import.meta.env.SHOAL_LONG === '1' ? 5_000 : 100 });
}, 60_000);

it('is refused without two bounds, or with too many multiples between them', () => {
  for (const bounds of [
    NONE,
    { ...NONE, minimum: 0 },
    { ...NONE, maximum: 9 },
    { ...NONE, minimum: 0, maximum: 1e6 },
  ]) {
    expect(() => multiplesExpression(bounds, 5, true)).toThrow(/at most 4096 multiples/);
  }
  expect(() => multiplesExpression({ ...NONE, minimum: 1e300, maximum: 1e300 }, 1e299, false)).toThrow(/at most/);
  // So many times the number that doubles don't tell them apart.
  expect(() => multiplesExpression({ ...NONE, minimum: 9e14, maximum: 9e14 }, 1e-7, false)).toThrow(/at most/);
  expect(() => multiplesExpression({ ...NONE, minimum: 1, maximum: 1 }, Number.MIN_VALUE, false)).toThrow(/at most/);
  expect(() => multiplesExpression({ ...NONE, minimum: 0, maximum: 1 }, 0, true)).toThrow(/above zero/);
});
