import { afterAll, beforeAll, expect, test } from 'vitest';
import { linearReference } from './linear.reference.ts';
import { Linear } from './linear.ts';
import { type ChooseLinear, MATVEC_COLUMNS } from './linear-choice.ts';
import { type LinearVariant, linearVariantOf } from './linear-variant.ts';
import { QUANT_FORMATS, quantValues } from './quant-format.ts';
import { STEP_HEADER } from './step-layout.ts';
import { bits, KernelBench, largestError } from './testing/kernel-bench.ts';
import { quantSource, randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { isQuantFormat, type MatrixFormat, tileBytes } from './weight-format.ts';
import type { QuantSource, WeightMatrix } from './weight-matrix.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

interface Case {
  readonly matrix: WeightMatrix;
  readonly x: Float32Array;
  readonly columns: number;
  readonly residual?: Float32Array<ArrayBuffer>;
  readonly kernel?: 'matvec' | 'matmul';
  readonly firstColumn?: number;
  readonly choice?: ChooseLinear;
}

/** What every product is made of, of one tile of rows by columns. */
function uniformChoice(variant: LinearVariant, splits = 1): ChooseLinear {
  return () => ({ splits, matvec: MATVEC_COLUMNS.map(() => variant), matmul: variant });
}

/** Runs a product and gives [columns, matrix.rows]. */
async function product({ matrix, x, columns, residual, kernel, firstColumn = 0, choice }: Case) {
  const output = await bench.buffer(residual?.slice() ?? new Float32Array(columns * matrix.rows).fill(9));
  const linear = await Linear.create(
    bench.gpu,
    matrix,
    {
      outputStride: matrix.rows,
      countWord: STEP_HEADER.rows,
      firstColumn,
      finish: { kind: residual ? 'add' : 'store' },
    },
    { step: await bench.rowsStep(firstColumn + columns), input: await bench.rows(x, matrix.columns), output },
    choice,
  );
  await bench.run((pass) => linear.encode(pass, columns, kernel));
  return bench.read(output, columns * matrix.rows);
}

const FLOATS = ['f32', 'f16', 'bf16'] as const;
/** Width, block and scale vary each with each other; all eight together take a minute to compile, in the long tier. */
const TESTED_QUANTS =
  import.meta.env.SHOAL_LONG === '1'
    ? QUANT_FORMATS
    : QUANT_FORMATS.filter((format) => /^(q4-32-f16|q4-16-f32|q8-32-f32|q8-16-f16)$/.test(format));

const expectedOf = (weights: Float32Array, rows: number, x: Float32Array, inner: number) =>
  Array.from({ length: x.length / inner }, (_, c) =>
    linearReference(weights, rows, x.slice(c * inner, (c + 1) * inner)),
  );

/** Shapes of float formats; quantised ones have whole units of 32 columns. */
const SHAPES = [
  [1, 1, 1],
  [5, 37, 3],
  [64, 64, 8],
  [67, 172, 9],
  [130, 61, 17],
  [33, 577, 2],
] as const;
const QUANT_SHAPES = [
  [1, 32, 1],
  [5, 96, 3],
  [64, 64, 8],
  [67, 160, 9],
  [130, 32, 17],
  [33, 576, 2],
  [65, 256, 64],
] as const;

const CASES = [
  ...FLOATS.flatMap((format) => SHAPES.map((shape) => [format, ...shape] as const)),
  ...TESTED_QUANTS.flatMap((format) => QUANT_SHAPES.map((shape) => [format, ...shape] as const)),
];

test.each(CASES)('%s weights, %i × %i, %i columns', async (format, rows, inner, columns) => {
  const random = new Random(rows * inner + columns);
  const { source, values } = randomMatrix(random, rows, inner, format);
  const x = random.normals(columns * inner);
  const actual = await product({ matrix: await bench.matrix(inner, source), x, columns });
  expectedOf(values, rows, x, inner).forEach((expected, c) => {
    expect(largestError(actual.slice(c * rows, (c + 1) * rows), expected)).toBeLessThan(2e-5);
  });
});

test('adds to the residual', async () => {
  const [rows, inner] = [21, 30];
  for (const columns of [2, 11]) {
    const random = new Random(columns);
    const { source, values } = randomMatrix(random, rows, inner);
    const x = random.normals(columns * inner);
    const residual = random.normals(columns * rows);
    const actual = await product({ matrix: await bench.matrix(inner, source), x, columns, residual });
    expectedOf(values, rows, x, inner).forEach((sums, c) => {
      const expected = sums.map((sum, row) => sum + residual[c * rows + row]!);
      expect(largestError(actual.slice(c * rows, (c + 1) * rows), expected)).toBeLessThan(1e-5);
    });
  }
});

test('takes columns from the middle, as the head does', async () => {
  const [rows, inner] = [19, 24];
  const random = new Random(3);
  const { source, values } = randomMatrix(random, rows, inner);
  const x = random.normals(11 * inner);
  const actual = await product({ matrix: await bench.matrix(inner, source), x, columns: 3, firstColumn: 8 });
  expectedOf(values, rows, x.slice(8 * inner), inner).forEach((expected, c) => {
    expect(largestError(actual.slice(c * rows, (c + 1) * rows), expected)).toBeLessThan(1e-5);
  });
});

/** Each compiles several variants; the paths' tests have more of them. */
const SPLIT_FORMATS: readonly MatrixFormat[] =
  import.meta.env.SHOAL_LONG === '1' ? [...FLOATS, ...TESTED_QUANTS] : ['f32', 'q4-32-f16'];
const ALL_FORMATS: readonly MatrixFormat[] = [...FLOATS, ...TESTED_QUANTS];

test.each(ALL_FORMATS)('%s: a column has the same bits in every kernel and company', async (format) => {
  const [rows, inner, most] = [71, 224, 23];
  const random = new Random(11);
  const { source } = randomMatrix(random, rows, inner, format);
  const matrix = await bench.matrix(inner, source);
  const x = random.normals(most * inner);
  const all = bits(await product({ matrix, x, columns: most }));
  for (const kernel of ['matvec', 'matmul'] as const) {
    for (const columns of [1, 2, 3, 5, 8]) {
      for (const first of columns === 3 ? [0, 7] : [7]) {
        const some = x.slice(first * inner, (first + columns) * inner);
        const actual = bits(await product({ matrix, x: some, columns, kernel }));
        expect(actual).toEqual(all.slice(first * rows, (first + columns) * rows));
      }
    }
  }
});

test.each(SPLIT_FORMATS)('%s: with splits of K, every variant has the same bits', async (format) => {
  const [rows, inner, columns] = [71, 416, 5];
  const random = new Random(12);
  const { source, values } = randomMatrix(random, rows, inner, format);
  const matrix = await bench.matrix(inner, source);
  const x = random.normals(columns * inner);
  // 13 units, 104 words of four: the last split is shorter, or empty.
  for (const splits of format === 'f32' ? [2, 3, 8] : [3]) {
    const named = (name: string) => uniformChoice(linearVariantOf(name), splits);
    const all = await product({ matrix, x, columns, choice: named('plain-4x2-8x1x1-4'), kernel: 'matmul' });
    expectedOf(values, rows, x, inner).forEach((expected, c) => {
      expect(largestError(all.slice(c * rows, (c + 1) * rows), expected)).toBeLessThan(2e-5);
    });
    const names = ['plain-8x1-8x1x1-4', `plain-1x1-8x1x${splits}-4`, `plain-2x3-8x1x${splits}-4`];
    if (isQuantFormat(format) && bench.gpu.device.features.has('subgroups')) names.push(`quads-8x1-4x1x${splits}-4`);
    for (const name of names) {
      const actual = await product({ matrix, x, columns, choice: named(name), kernel: 'matvec' });
      expect(bits(actual)).toEqual(bits(all));
    }
  }
});

test('without subgroups the numbers are the same', async () => {
  const [rows, inner, columns] = [71, 224, 9];
  const random = new Random(14);
  for (const format of SPLIT_FORMATS.filter((name) => isQuantFormat(name))) {
    const matrix = await bench.matrix(inner, randomMatrix(random, rows, inner, format).source);
    const x = random.normals(columns * inner);
    const choice = uniformChoice(linearVariantOf('plain-8x1-8x1x1-4'));
    expect(bits(await product({ matrix, x, columns, choice }))).toEqual(bits(await product({ matrix, x, columns })));
  }
});

test('parts: sources of several formats, cut at a small binding limit, give the bits of the uncut matrix', async () => {
  const inner = 32;
  const random = new Random(12);
  const sources = [
    randomMatrix(random, 140, inner, 'f32'),
    randomMatrix(random, 13, inner, 'f32'),
    randomMatrix(random, 29, inner, 'q4-32-f16'),
    randomMatrix(random, 70, inner, 'q4-32-f16'),
    randomMatrix(random, 7, inner, 'bf16'),
  ];
  const rows = 259;
  const limit = 1.5 * tileBytes('f32', inner);
  const small = await KernelBench.open(limit);
  const cut = await small.matrix(inner, ...sources.map(({ source }) => source));
  expect(cut.parts.map((part) => [part.firstRow, part.rows, part.format])).toEqual([
    [0, 64, 'f32'],
    [64, 64, 'f32'],
    [128, 25, 'f32'],
    [153, 99, 'q4-32-f16'],
    [252, 7, 'bf16'],
  ]);
  expect(Math.max(...cut.parts.map((part) => part.buffer.size))).toBeLessThanOrEqual(limit);
  const uncut = await bench.matrix(inner, ...sources.map(({ source }) => source));
  expect(uncut.parts.length).toBe(3);
  for (const columns of [1, 12]) {
    const x = random.normals(columns * inner);
    const [actual, expected] = [
      await product({ matrix: cut, x, columns }),
      await product({ matrix: uncut, x, columns }),
    ];
    expect(bits(actual)).toEqual(bits(expected));
    const values = Float32Array.from(sources.flatMap((s) => [...s.values]));
    const reference = expectedOf(values, rows, x, inner);
    reference.forEach((sums, c) => {
      expect(largestError(actual.slice(c * rows, (c + 1) * rows), sums)).toBeLessThan(1e-5);
    });
  }
  small.close();
});

test('a tile over the binding limit is an error with the sizes', async () => {
  const small = await KernelBench.open(4096);
  const { source } = randomMatrix(new Random(1), 2, 17);
  await expect(small.matrix(17, source)).rejects.toThrow(
    /64 rows of 17 columns are 5120 bytes, over the binding limit of 4096/,
  );
});

test('columns that are no whole units are an error of quantised formats', async () => {
  const { source } = randomMatrix(new Random(1), 2, 64, 'q8-32-f16');
  await expect(bench.matrix(48, source)).rejects.toThrow(/48 columns are no multiple of 32/);
});

test.each([
  ['a subnormal half', 2 ** -20],
  ['more than a half holds', 70_000],
  ['digits that a half has not', 1 + 2 ** -12],
])('a scale of %s is kept as f32', async (_, scale) => {
  const [rows, inner] = [70, 64];
  const random = new Random(2);
  const { source } = randomMatrix(random, rows, inner, 'q8-32-f16');
  const all = await (source as QuantSource).readRows(0, rows);
  all.scales[2 * 66] = scale;
  const before = bench.gpu.buffers.liveBytes;
  const matrix = await bench.matrix(inner, quantSource(all, inner, 'q8-32-f16'));
  expect(matrix.parts.map((part) => part.format)).toEqual(['q8-32-f32']);
  expect(bench.gpu.buffers.liveBytes - before).toBe(matrix.bytes);
  const x = random.normals(inner);
  const expected = linearReference(quantValues(all, 32), rows, x);
  const actual = await product({ matrix, x, columns: 1 });
  expect(Math.abs(actual[66]! / expected[66]! - 1)).toBeLessThan(1e-5);
  expect(largestError(actual.slice(0, 66), expected.slice(0, 66))).toBeLessThan(2e-5);
});
