import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { linearReference } from './linear.reference.ts';
import { Linear } from './linear.ts';
import { STEP_HEADER } from './step-layout.ts';
import { bits, KernelBench, largestError } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { rowBytes, type WeightFormat } from './weight-format.ts';
import type { WeightMatrix } from './weight-matrix.ts';

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
}

/** Runs a product and gives [columns, matrix.rows]. */
async function product({ matrix, x, columns, residual, kernel, firstColumn = 0 }: Case) {
  const output = await bench.buffer(residual?.slice() ?? new Float32Array(columns * matrix.rows).fill(9));
  const linear = await Linear.create(
    bench.gpu,
    matrix,
    { outputStride: matrix.rows, accumulate: residual !== undefined, countWord: STEP_HEADER.rows, firstColumn },
    { step: await bench.rowsStep(firstColumn + columns), input: await bench.rows(x, matrix.columns), output },
  );
  await bench.run((pass) => linear.encode(pass, columns, kernel));
  return bench.read(output, columns * matrix.rows);
}

const expectedOf = (weights: Float32Array, rows: number, x: Float32Array, inner: number) =>
  Array.from({ length: x.length / inner }, (_, c) =>
    linearReference(weights, rows, x.slice(c * inner, (c + 1) * inner)),
  );

describe.each<WeightFormat>(['f32', 'f16', 'bf16'])('%s weights', (format) => {
  test.each([
    [1, 1, 1],
    [5, 37, 3],
    [64, 64, 8],
    [67, 172, 9],
    [130, 61, 17],
    [33, 577, 2],
  ])('%i × %i, %i columns', async (rows, inner, columns) => {
    const random = new Random(rows * inner + columns);
    const { source, values } = randomMatrix(random, rows, inner, format);
    const x = random.normals(columns * inner);
    const actual = await product({ matrix: await bench.matrix(inner, source), x, columns });
    expectedOf(values, rows, x, inner).forEach((expected, c) => {
      expect(largestError(actual.slice(c * rows, (c + 1) * rows), expected)).toBeLessThan(2e-5);
    });
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

test.each<WeightFormat>(['f32', 'f16', 'bf16'])(
  '%s: a column has the same bits in every kernel and company',
  async (format) => {
    const [rows, inner, most] = [71, 173, 23];
    const random = new Random(11);
    const { source } = randomMatrix(random, rows, inner, format);
    const matrix = await bench.matrix(inner, source);
    const x = random.normals(most * inner);
    const all = bits(await product({ matrix, x, columns: most }));
    for (const kernel of ['matvec', 'matmul'] as const) {
      for (const columns of [1, 2, 3, 4, 5, 8]) {
        for (const first of [0, 7]) {
          const some = x.slice(first * inner, (first + columns) * inner);
          const actual = bits(await product({ matrix, x: some, columns, kernel }));
          expect(actual).toEqual(all.slice(first * rows, (first + columns) * rows));
        }
      }
    }
  },
);

test('parts: sources of several formats, cut at a small binding limit, give the bits of the uncut matrix', async () => {
  const inner = 20;
  const random = new Random(12);
  const sources = [
    randomMatrix(random, 40, inner, 'f32'),
    randomMatrix(random, 13, inner, 'f32'),
    randomMatrix(random, 29, inner, 'f16'),
    randomMatrix(random, 7, inner, 'bf16'),
  ];
  const rows = 89;
  const limit = 24 * rowBytes('f32', inner);
  const small = await KernelBench.open(limit);
  const cut = await small.matrix(inner, ...sources.map(({ source }) => source));
  expect(cut.parts.map((part) => [part.firstRow, part.rows, part.format])).toEqual([
    [0, 24, 'f32'],
    [24, 24, 'f32'],
    [48, 5, 'f32'],
    [53, 29, 'f16'],
    [82, 7, 'bf16'],
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

test('a row over the binding limit is an error with the sizes', async () => {
  const small = await KernelBench.open(64);
  const { source } = randomMatrix(new Random(1), 2, 17);
  await expect(small.matrix(17, source)).rejects.toThrow(/17 columns is over the binding limit of 64 bytes/);
});
