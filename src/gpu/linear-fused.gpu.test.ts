import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ActivateRows } from './activate-rows.ts';
import { linearReference } from './linear.reference.ts';
import { Linear, type LinearFinish, type LinearShape } from './linear.ts';
import { NormInput, squaresWords } from './norm-input.ts';
import { rmsNormReference } from './rms-norm.reference.ts';
import { Rope } from './rope.ts';
import { plainTurns, ropeTable } from './rope-table.ts';
import { rowWords } from './row-words.ts';
import { STEP_HEADER } from './step-layout.ts';
import { bits, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { type MatrixFormat, tileBytes } from './weight-format.ts';
import { type AnySource, WeightMatrix } from './weight-matrix.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

const shapeOf = (outputStride: number, more: Partial<LinearShape> = {}): LinearShape => ({
  outputStride,
  countWord: STEP_HEADER.rows,
  ...more,
});

/** Rows of `columns` numbers after the product with `matrix`. */
async function product(
  gpu: KernelBench,
  matrix: WeightMatrix,
  step: GPUBuffer,
  input: GPUBuffer,
  rows: number,
  outputColumns: number,
  finish: LinearFinish = { kind: 'store' },
  more: Partial<LinearShape> = {},
  kernel?: 'matvec' | 'matmul',
): Promise<GPUBuffer> {
  const stride = 4 * rowWords(outputColumns);
  const output = await bench.zeros(rows * stride);
  const linear = await Linear.create(gpu.gpu, matrix, shapeOf(stride, { finish, ...more }), { step, input, output });
  await bench.run((pass) => linear.encode(pass, rows, kernel));
  return output;
}

const FORMATS: readonly MatrixFormat[] = ['f32', 'bf16', 'q4-32-f16', 'q8-16-f32'];
const ROWS = [1, 2, 5, 11] as const;

describe.each(FORMATS)('%s', (format) => {
  test.each([
    [20, 32, 0],
    [172, 64, 0],
    [100, 96, 2],
  ])(
    'gate, up and activation of %i numbers from %i are those of the two kernels (parts of %i tiles)',
    async (columns, inner, cut) => {
      const random = new Random(columns);
      const sources = [randomMatrix(random, columns, inner, format), randomMatrix(random, columns, inner, format)];
      const all = sources.map(({ source }) => source) as AnySource[];
      const other = cut === 0 ? bench : await KernelBench.open(cut * tileBytes(format, inner));
      const paired = (await WeightMatrix.loadPaired(other.gpu, inner, all, columns))!;
      expect(paired.parts.length).toBe(cut === 0 ? 1 : Math.ceil(columns / (32 * cut)));
      const plain = await bench.matrix(inner, ...all);
      for (const rows of ROWS) {
        const step = await bench.rowsStep(rows);
        const input = await bench.rows(random.normals(rows * inner, 3), inner);
        const both = await product(bench, plain, step, input, rows, 2 * columns);
        for (const activation of ['silu', 'gelu-tanh'] as const) {
          const expected = await bench.zeros(rows * 4 * rowWords(columns));
          const shape = { columns, activation, gated: true };
          const activate = await ActivateRows.create(bench.gpu, shape, { step, input: both, output: expected });
          await bench.run((pass) => activate.encode(pass, rows));
          const fused = await product(other, paired, step, input, rows, columns, { kind: 'gate', activation });
          expect(bits(await bench.read(fused))).toEqual(bits(await bench.read(expected)));
        }
      }
      if (other !== bench) other.close();
    },
  );

  test.each([
    [3, 1, 8],
    [4, 2, 24],
    [2, 2, 64],
    [2, 1, 128],
  ])(
    '%i heads over %i of %i numbers are rotated and put where the two kernels do',
    async (heads, kvHeads, headSize) => {
      const inner = 64;
      const random = new Random(heads * headSize);
      const parts = [heads, kvHeads, kvHeads].map(
        (count) => randomMatrix(random, count * headSize, inner, format).source,
      );
      const paired = (await WeightMatrix.loadPaired(bench.gpu, inner, parts, headSize / 2))!;
      const plain = await bench.matrix(inner, ...parts);
      const table = await bench.buffer(ropeTable(64, plainTurns(headSize, 10_000)));
      const shape = { heads, kvHeads, headSize, kvFormat: 'f32' } as const;
      for (const rows of ROWS) {
        const { buffer: step } = await bench.step([
          { slot: 1, tokens: new Uint32Array(1), startPosition: 30, blockTable: [3, 0] },
          ...(rows > 1 ? [{ slot: 0, tokens: new Uint32Array(rows - 1), startPosition: 7, blockTable: [2, 1] }] : []),
        ]);
        const input = await bench.rows(random.normals(rows * inner), inner);
        const kvSize = 4 * 2 * kvHeads * 16 * headSize;
        const [query, kv, fusedKv] = [
          await bench.zeros(rows * heads * headSize),
          await bench.zeros(kvSize),
          await bench.zeros(kvSize),
        ];
        const qkv = await product(bench, plain, step, input, rows, (heads + 2 * kvHeads) * headSize);
        const rope = await Rope.create(bench.gpu, shape, { step, qkv, table, query, kv });
        await bench.run((pass) => rope.encode(pass, rows));
        const finish = { kind: 'rotate', heads, kvHeads, headSize, table, kv: fusedKv } as const;
        const fused = await product(bench, paired, step, input, rows, heads * headSize, finish);
        expect(bits(await bench.read(fused))).toEqual(bits(await bench.read(query)));
        expect(bits(await bench.read(fusedKv))).toEqual(bits(await bench.read(kv)));
      }
    },
  );

  test('a product into the residual stream leaves the next norm its input, as norm-input does', async () => {
    const [columns, inner] = [172, 64];
    const random = new Random(6);
    const matrix = await bench.matrix(inner, randomMatrix(random, columns, inner, format).source);
    const gain = await bench.rows(random.normals(columns), columns);
    for (const rows of ROWS) {
      const step = await bench.rowsStep(rows);
      const input = await bench.rows(random.normals(rows * inner), inner);
      const residual = random.normals(rows * columns);
      const [added, emitted] = [await bench.rows(residual, columns), await bench.rows(residual, columns)];
      const buffers = async () => ({
        scaled: await bench.zeros(rows * 4 * rowWords(columns)),
        squares: await bench.zeros(rows * 4 * squaresWords(columns)),
      });
      const [expected, actual] = [await buffers(), await buffers()];
      const stride = 4 * rowWords(columns);
      const add = await Linear.create(bench.gpu, matrix, shapeOf(stride, { finish: { kind: 'add' } }), {
        ...{ step, input, output: added },
      });
      const emit = await Linear.create(
        bench.gpu,
        matrix,
        shapeOf(stride, { finish: { kind: 'emit', gain, ...actual } }),
        {
          ...{ step, input, output: emitted },
        },
      );
      const after = await NormInput.create(bench.gpu, columns, { step, input: added, gain, ...expected });
      await bench.run((pass) => {
        add.encode(pass, rows);
        after.encode(pass, rows);
        emit.encode(pass, rows);
      });
      expect(bits(await bench.read(emitted))).toEqual(bits(await bench.read(added)));
      expect(bits(await bench.read(actual.scaled))).toEqual(bits(await bench.read(expected.scaled)));
      expect(bits(await bench.read(actual.squares))).toEqual(bits(await bench.read(expected.squares)));
    }
  });

  test('a product of normed rows is that of their norms, and the same in every company', async () => {
    const [columns, inner, most] = [71, 160, 11];
    const epsilon = 1e-5;
    const random = new Random(8);
    const { source, values } = randomMatrix(random, columns, inner, format);
    const matrix = await bench.matrix(inner, source);
    const x = random.normals(most * inner, 0.3);
    const gain = random.normals(inner);
    const run = async (rows: number, first: number, kernel?: 'matvec' | 'matmul') => {
      const step = await bench.rowsStep(rows);
      const input = await bench.rows(x.slice(first * inner, (first + rows) * inner), inner);
      const scaled = await bench.zeros(rows * inner);
      const squares = await bench.zeros(rows * 4 * squaresWords(inner));
      const norm = await NormInput.create(bench.gpu, inner, {
        ...{ step, input, scaled, squares, gain: await bench.rows(gain, inner) },
      });
      await bench.run((pass) => norm.encode(pass, rows));
      const more = { norm: { epsilon, squares } };
      return bench.read(await product(bench, matrix, step, scaled, rows, columns, { kind: 'store' }, more, kernel));
    };
    const all = await run(most, 0);
    for (let row = 0; row < most; row++) {
      const normed = rmsNormReference(x.slice(row * inner, (row + 1) * inner), gain, epsilon);
      const expected = linearReference(values, columns, normed);
      expect(largestError(paddedRow(all, columns, row), expected)).toBeLessThan(2e-5);
    }
    for (const [rows, first, kernel] of [
      [1, 4, 'matvec'],
      [3, 2, 'matvec'],
      [1, 9, 'matmul'],
    ] as const) {
      const some = await run(rows, first, kernel);
      for (let row = 0; row < rows; row++) {
        expect(bits(paddedRow(some, columns, row))).toEqual(bits(paddedRow(all, columns, first + row)));
      }
    }
  });
});

test('formats that change inside of a pair are not paired, and leave nothing behind', async () => {
  const random = new Random(9);
  const sources = [randomMatrix(random, 64, 32, 'f16').source, randomMatrix(random, 64, 32, 'q8-32-f16').source];
  const before = bench.gpu.buffers.liveBytes;
  expect(await WeightMatrix.loadPaired(bench.gpu, 32, sources, 64)).toBeUndefined();
  expect(bench.gpu.buffers.liveBytes).toBe(before);
});

test('a finish that asks for pairs, or for none, refuses the other', async () => {
  const { source } = randomMatrix(new Random(9), 64, 32, 'f16');
  const step = await bench.rowsStep(1);
  const input = await bench.zeros(32);
  await expect(product(bench, await bench.matrix(32, source), step, input, 1, 32, { kind: 'gate' })).rejects.toThrow(
    'gate of a matrix whose rows are not paired',
  );
});
