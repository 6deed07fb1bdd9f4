import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { candidates } from './linear-candidates.ts';
import { checkChoice } from './linear-choice.ts';
import type { LinearFeatures } from './linear-features.ts';
import {
  checkVariant,
  isFast,
  type LinearForm,
  type LinearVariant,
  linearVariantOf,
  variantName,
} from './linear-variant.ts';
import { QUANT_FORMATS } from './quant-format.ts';
import type { MatrixFormat } from './weight-format.ts';

const FRAGMENT = { component: 'f16', result: 'f32', m: 16, n: 16, k: 16, subgroup: 32 } as const;
const FULL: LinearFeatures = { has: () => true, packedDot: true, software: false, fragments: [FRAGMENT] };
const BARE: LinearFeatures = { has: () => false, packedDot: false, software: false, fragments: [] };

const aPart = fc.record({
  tiles: fc.integer({ min: 1, max: 2_000 }),
  columns: fc.integer({ min: 1, max: 400 }).map((units) => 32 * units),
  format: fc.constantFrom<MatrixFormat>('f32', 'f16', 'bf16', ...QUANT_FORMATS),
});
const aForm = fc.record<LinearForm>({
  finish: fc.constantFrom('store', 'add', 'emit', 'gate', 'rotate'),
  normed: fc.boolean(),
});
const someFeatures = fc.record({
  has: fc.subarray(['subgroups', 'shader-f16']).map((names) => (name: string) => names.includes(name)),
  packedDot: fc.boolean(),
  software: fc.boolean(),
  fragments: fc.constantFrom([], [FRAGMENT], [{ ...FRAGMENT, component: 'f32' as const, m: 8, n: 8, k: 8 }]),
});

const variantsOf = (choice: ReturnType<typeof candidates>[number]): LinearVariant[] => [
  ...choice.matvec,
  choice.matmul,
];

describe('candidates', () => {
  test('can be of their part and form, have names, and sum in one order each', () => {
    fc.assert(
      fc.property(aPart, aForm, someFeatures, fc.constantFrom('exact', 'fast'), (part, form, features, precision) => {
        const all = candidates(part, form, features, precision);
        for (const choice of all) {
          checkChoice(choice);
          for (const variant of variantsOf(choice)) {
            checkVariant(variant, form, part.format);
            expect(linearVariantOf(variantName(variant))).toEqual(variant);
          }
        }
        expect(all.length).toBeLessThanOrEqual(features.software ? 1 : 6);
        // What is taken without a tuner rounds nothing.
        expect(variantsOf(all[0]!).some(({ path }) => isFast(path))).toBe(false);
      }),
    );
  });

  test('take a path only with what it needs, and with precision fast', () => {
    const part = { tiles: 32, columns: 2048, format: 'q4-32-f16' } as const;
    const form: LinearForm = { finish: 'rotate', normed: true };
    const paths = (features: LinearFeatures, precision: 'exact' | 'fast', format: MatrixFormat = part.format) =>
      new Set(
        candidates({ ...part, format }, form, features, precision)
          .flatMap(variantsOf)
          .map(({ path }) => path),
      );
    expect(paths(FULL, 'fast')).toEqual(new Set(['plain', 'quads', 'f16', 'dot', 'matrix']));
    expect(paths(FULL, 'fast', 'bf16')).toEqual(new Set(['plain', 'f16', 'matrix']));
    expect(paths(FULL, 'exact')).toEqual(new Set(['plain', 'quads']));
    expect(paths(BARE, 'fast')).toEqual(new Set(['plain']));
    const single = candidates(part, form, { ...FULL, software: true }, 'fast');
    expect(single.map(({ splits }) => splits)).toEqual([1]);
  });

  test('spread K of a wide matrix over a workgroup, and leave a narrow one whole', () => {
    const form: LinearForm = { finish: 'store', normed: false };
    const splitsOf = (columns: number) =>
      candidates({ tiles: 8, columns, format: 'q4-32-f16' }, form, BARE, 'exact').map(({ splits }) => splits);
    expect(splitsOf(4096)).toEqual([16, 8, 1]);
    expect(splitsOf(32)).toEqual([1, 1, 1]);
  });
});

describe('a variant', () => {
  test.each([
    ['plain-8x4', 'no variant of a product is named "plain-8x4"'],
    ['wide-8x4-64x1x1-4', 'paths plain, quads, f16, dot, matrix'],
    ['plain-3x4-64x1x1-4', '3 rows a thread; a power of two'],
    ['plain-8x0-64x1x1-4', '0 columns; at least 1'],
    ['plain-8x4-64x8x1-4', '512 threads a workgroup'],
    ['plain-8x8-16x1x16-1', '65536 bytes of workgroup memory'],
    ['quads-8x1-6x1x1-4', '6 threads are no whole quads'],
    ['quads-8x1-8x2x1-4', 'quads share the input already'],
    ['dot-8x4-8x8x1-4', 'one chain'],
    ['matrix-8x4-8x16x1-1', 'the path matrix has a fragment'],
    ['plain-8x4-8x8x1-1-f16.f32.16x16x16.32', 'the path matrix has a fragment, and no other'],
    ['matrix-8x4-4x16x1-1-f16.f32.16x16x16.32', 'fragments take a tile of 64'],
    ['matrix-8x4-8x16x1-1-f16.f16.16x16x16.32', 'summed as f32'],
    ['matrix-8x4-8x16x1-1-f16.f32.16x16x16.96', 'no whole subgroups of 96'],
    ['matrix-8x1-8x16x1-1-f16.f32.16x32x16.32', "don't divide"],
  ])('%s is refused: %s', (name, why) => {
    expect(() => linearVariantOf(name)).toThrow(why);
    expect(() => linearVariantOf(name)).toThrow(RangeError);
  });

  test('is refused in forms and formats that it is not for', () => {
    const variant = linearVariantOf('plain-4x2-64x1x1-4');
    expect(() => checkVariant(variant, { finish: 'emit', normed: false })).toThrow('emitting takes 8');
    const single = linearVariantOf('plain-1x2-64x1x1-4');
    expect(() => checkVariant(single, { finish: 'gate', normed: true })).toThrow('pairs take 2, 4 or 8');
    const form: LinearForm = { finish: 'store', normed: false };
    expect(() => checkVariant(linearVariantOf('quads-8x1-64x1x1-4'), form, 'f32')).toThrow('not f32');
    expect(() => checkVariant(linearVariantOf('dot-8x1-8x1x1-1'), form, 'bf16')).toThrow('not of bf16');
  });

  test('of another order is refused in a choice', () => {
    const [first, other] = [linearVariantOf('plain-8x1-64x1x1-4'), linearVariantOf('plain-8x1-64x1x1-1')];
    expect(() => checkChoice({ splits: 1, matvec: [first], matmul: other })).toThrow('sum in other orders');
    const split = linearVariantOf('plain-8x1-8x1x8-4');
    expect(() => checkChoice({ splits: 4, matvec: [split], matmul: first })).toThrow('8 threads along K for 4 splits');
  });
});
