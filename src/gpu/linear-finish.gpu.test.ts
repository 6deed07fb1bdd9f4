import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { activationReference } from './activation.reference.ts';
import { linearReference } from './linear.reference.ts';
import { Linear, type LinearFinish } from './linear.ts';
import { rowWords } from './row-words.ts';
import { STEP_HEADER } from './step-layout.ts';
import { bits, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { type MatrixFormat, tileBytes } from './weight-format.ts';
import { WeightMatrix } from './weight-matrix.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

const [ROWS, INNER, MOST] = [131, 64, 11] as const;

describe.each<[MatrixFormat, number]>([
  ['f32', 0],
  ['q4-32-f16', 1],
])('%s, parts of %i tiles (0: uncut)', (format, cut) => {
  test.each<[string, LinearFinish['kind'], boolean, number, number | undefined]>([
    ['a bias', 'store', true, 1, undefined],
    ['a scale', 'store', false, 0.4, undefined],
    ['a bias, a scale and a cap', 'store', true, 2, 1.5],
    ['a bias and a scale into the stream', 'add', true, 0.22, undefined],
  ])('%s: the same bits in every company', async (_, kind, biased, scale, cap) => {
    const random = new Random(ROWS);
    const other = cut === 0 ? bench : await KernelBench.open(cut * tileBytes(format, INNER));
    const { source, values } = randomMatrix(random, ROWS, INNER, format);
    const matrix = await other.matrix(INNER, source);
    const [x, before, biases] = [random.normals(MOST * INNER), random.normals(MOST * ROWS), random.normals(ROWS)];
    const bias = biased ? await bench.rows(biases, ROWS) : undefined;
    const finish: LinearFinish = kind === 'store' ? { kind, bias, scale, cap } : { kind: 'add', bias, scale };
    const run = async (rows: number, first: number, kernel: 'matvec' | 'matmul') => {
      const output = await bench.rows(before.slice(first * ROWS, (first + rows) * ROWS), ROWS);
      const linear = await Linear.create(
        other.gpu,
        matrix,
        { outputStride: 4 * rowWords(ROWS), countWord: STEP_HEADER.rows, finish },
        {
          ...{ step: await bench.rowsStep(rows), output },
          input: await bench.rows(x.slice(first * INNER, (first + rows) * INNER), INNER),
        },
      );
      await bench.run((pass) => linear.encode(pass, rows, kernel));
      return bench.read(output);
    };
    const all = await run(MOST, 0, 'matmul');
    for (let row = 0; row < MOST; row++) {
      const sums = linearReference(values, ROWS, x.slice(row * INNER, (row + 1) * INNER));
      const expected = sums.map((sum, i) => {
        const scaled = scale * (sum + (biased ? biases[i]! : 0));
        if (kind === 'add') return before[row * ROWS + i]! + scaled;
        return cap === undefined ? scaled : cap * Math.tanh(scaled / cap);
      });
      expect(largestError(paddedRow(all, ROWS, row), expected)).toBeLessThan(2e-5);
    }
    for (const [rows, first] of [
      [1, 4],
      [3, 2],
    ] as const) {
      const some = await run(rows, first, 'matvec');
      for (let row = 0; row < rows; row++) {
        expect(bits(paddedRow(some, ROWS, row))).toEqual(bits(paddedRow(all, ROWS, first + row)));
      }
    }
    if (other !== bench) other.close();
  });

  test('gate and up with the tanh form of GELU, at the ends of exp too', async () => {
    const columns = 43;
    const random = new Random(columns);
    const { source, values } = randomMatrix(random, 2 * columns, INNER, format);
    const paired = (await WeightMatrix.loadPaired(bench.gpu, INNER, [source], columns))!;
    const x = random.normals(3 * INNER, 3);
    x.fill(900, 2 * INNER);
    const output = await bench.zeros(3 * 4 * rowWords(columns));
    const linear = await Linear.create(
      bench.gpu,
      paired,
      {
        ...{ outputStride: 4 * rowWords(columns), countWord: STEP_HEADER.rows },
        finish: { kind: 'gate', activation: 'gelu-tanh' },
      },
      { step: await bench.rowsStep(3), input: await bench.rows(x, INNER), output },
    );
    await bench.run((pass) => linear.encode(pass, 3));
    const actual = await bench.read(output);
    for (let row = 0; row < 3; row++) {
      const both = linearReference(values, 2 * columns, x.slice(row * INNER, (row + 1) * INNER));
      paddedRow(actual, columns, row).forEach((value, i) => {
        const expected = activationReference('gelu-tanh', both[i]!) * both[columns + i]!;
        expect(Math.abs(value - expected)).toBeLessThan(5e-5 * Math.max(1, Math.abs(expected)));
      });
    }
  });
});

test('a cap holds where tanh has no numbers left, and a NaN stays one', async () => {
  const weights = Float32Array.of(1, 0, 0, 0);
  const matrix = await bench.matrix(4, {
    ...{ label: 'one', rows: 1, format: 'f32' },
    read: async (from, length) => new Uint8Array(weights.buffer, from, length),
  });
  const x = Float32Array.of(3e38, 0, 0, 0, -3e38, 0, 0, 0, 1e-3, 0, 0, 0, Number.NaN, 0, 0, 0);
  const output = await bench.zeros(16);
  const linear = await Linear.create(
    bench.gpu,
    matrix,
    { outputStride: 4, countWord: STEP_HEADER.rows, finish: { kind: 'store', cap: 30 } },
    { step: await bench.rowsStep(4), input: await bench.buffer(x), output },
  );
  await bench.run((pass) => linear.encode(pass, 4));
  const values = await bench.read(output);
  expect([values[0], values[4]]).toEqual([30, -30]);
  expect(Math.abs(values[8]! - 1e-3)).toBeLessThan(2e-6);
  expect(values[12]).toBeNaN();
});
