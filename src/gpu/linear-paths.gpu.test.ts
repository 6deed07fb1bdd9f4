import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LINEAR_TOLERANCES, linearReference, roundedColumns } from './linear.reference.ts';
import { Linear, type LinearFinish } from './linear.ts';
import { candidates } from './linear-candidates.ts';
import { type ChooseLinear, MATVEC_COLUMNS } from './linear-choice.ts';
import { isFast, linearVariantOf } from './linear-variant.ts';
import { squaresWords } from './norm-input.ts';
import { quantShape } from './quant-format.ts';
import { rowWords } from './row-words.ts';
import { STEP_HEADER } from './step-layout.ts';
import { bits, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { isQuantFormat, type MatrixFormat } from './weight-format.ts';
import { type QuantSource, WeightMatrix } from './weight-matrix.ts';

const LONG = import.meta.env.SHOAL_LONG === '1';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** Every product of the variant with this name. */
function only(name: string, splits = 1): ChooseLinear {
  const variant = linearVariantOf(name);
  return () => ({ splits, matvec: MATVEC_COLUMNS.map(() => variant), matmul: variant });
}

/** [columns, matrix.rows padded to 4], of `finish` [columns, outputs padded to 4]. */
async function product(
  matrix: WeightMatrix,
  x: Float32Array,
  columns: number,
  choice: ChooseLinear,
  finish: LinearFinish = { kind: 'store' },
  outputs = matrix.rows,
) {
  const stride = 4 * rowWords(outputs);
  const output = await bench.zeros(columns * stride);
  const linear = await Linear.create(
    bench.gpu,
    matrix,
    { outputStride: stride, countWord: STEP_HEADER.rows, finish },
    { step: await bench.rowsStep(columns), input: await bench.rows(x, matrix.columns), output },
    choice,
  );
  await bench.run((pass) => linear.encode(pass, columns));
  return bench.read(output);
}

const lengthOf = (values: Float32Array) => Math.hypot(...values);

/** Variants of the paths whose products are rounded where the adapter has what they are for. SwiftShader compiles as long as tiles are large. */
const FAST = {
  f16: ['f16-2x2-4x2x1-1', 'f16-8x1-4x1x2-1'],
  dot: ['dot-2x2-4x2x1-1', 'dot-8x1-4x1x2-1'],
  matrix: ['matrix-8x2-8x8x1-1-f16.f32.8x8x8.32'],
} as const;
const FORMATS: readonly MatrixFormat[] = LONG
  ? ['f32', 'bf16', 'q4-32-f16', 'q4-16-f32', 'q8-32-f32', 'q8-16-f16']
  : ['f32', 'q4-16-f32', 'q8-32-f16'];

describe.each(['f16', 'dot', 'matrix'] as const)('%s', (path) => {
  const formats = [...FORMATS, ...(path === 'dot' ? (['q4-32-f16', 'q8-16-f16'] as const) : [])];
  test.each(formats.filter((format) => path !== 'dot' || isQuantFormat(format)))(
    '%s weights: products are near, and indices right',
    async (format) => {
      const [rows, inner] = [71, isQuantFormat(format) ? 160 : 77];
      const random = new Random(21);
      const { source, values } = randomMatrix(random, rows, inner, format);
      const matrix = await bench.matrix(inner, source);
      const halves = bench.gpu.device.features.has('shader-f16');
      for (const columns of path === 'matrix' ? [19] : [1, 6]) {
        const x = random.normals(columns * inner);
        // Blocks of very different sizes; one of nothing.
        for (let i = 0; i < inner; i++) x[i]! *= [1, 1e-3, 300, 0][i >> 5] ?? 1;
        for (const name of FAST[path]) {
          const splits = linearVariantOf(name).splitThreads;
          const actual = await product(matrix, x, columns, only(name, splits));
          for (let c = 0; c < columns; c++) {
            const column = x.slice(c * inner, (c + 1) * inner);
            const sums = paddedRow(actual, rows, c);
            const expected = linearReference(values, rows, column);
            const size = lengthOf(column);
            for (let row = 0; row < rows; row++) {
              const most = LINEAR_TOLERANCES[path] * size * lengthOf(values.subarray(row * inner, (row + 1) * inner));
              expect(Math.abs(sums[row]! - expected[row]!)).toBeLessThan(most);
            }
            // Without halves the same indices give f32's digits; integers give those of the rounded columns.
            const near = path === 'dot' ? await dotReference(source as QuantSource, rows, column) : expected;
            if (path === 'dot' || !halves) expect(largestError(sums, near)).toBeLessThan(1e-4);
          }
        }
      }
    },
  );
});

/** The quants by the rounded column, the minima by the column. */
async function dotReference(source: QuantSource, rows: number, x: Float32Array): Promise<Float32Array> {
  const { quants, scales, mins } = await source.readRows(0, rows);
  const { block } = quantShape(source.format);
  const scaled = Float32Array.from(quants, (quant, i) => quant * scales[Math.floor(i / block)]!);
  const least = Float32Array.from(quants, (_, i) => mins[Math.floor(i / block)]!);
  const ofMins = linearReference(least, rows, x);
  return linearReference(scaled, rows, roundedColumns(x)).map((sum, row) => sum + ofMins[row]!);
}

test.each(FORMATS)(
  '%s: columns in workgroup memory, and sums of one chain, keep the bits of their choice',
  async (format) => {
    const [rows, inner, columns] = [71, isQuantFormat(format) ? 160 : 77, 5];
    const random = new Random(22);
    const { source, values } = randomMatrix(random, rows, inner, format);
    const matrix = await bench.matrix(inner, source);
    const x = random.normals(columns * inner);
    const quads = isQuantFormat(format) && bench.gpu.device.features.has('subgroups');
    for (const [splits, chains, names] of [
      [1, 4, ['plain-2x2-4x2x1']],
      [2, 1, ['plain-2x2-4x2x2', 'plain-1x1-8x1x2', ...(quads ? ['quads-2x2-8x1x1'] : [])]],
    ] as const) {
      const first = await product(matrix, x, columns, only(`plain-4x1-8x1x1-${chains}`, splits));
      for (let c = 0; c < columns; c++) {
        const expected = linearReference(values, rows, x.slice(c * inner, (c + 1) * inner));
        expect(largestError(paddedRow(first, rows, c), expected)).toBeLessThan(2e-5);
      }
      for (const name of names) {
        expect(bits(await product(matrix, x, columns, only(`${name}-${chains}`, splits)))).toEqual(bits(first));
      }
    }
  },
);

/** Of 8 rows, as emitting takes. */
const FINISHED = ['plain-8x2-4x2x1-1', 'dot-8x1-4x1x1-1', ...(LONG ? ['f16-8x1-4x1x1-1'] : []), ...FAST.matrix];

test.each(FINISHED)('%s is finished as every product', async (name) => {
  const [inner, columns] = [64, 3];
  const random = new Random(23);
  const parts = [0, 1].map(() => randomMatrix(random, 40, inner, 'q8-32-f16').source);
  const x = random.normals(columns * inner);
  const plain = only('plain-8x1-8x1x1-4');
  const tolerance = LINEAR_TOLERANCES[linearVariantOf(name).path] * inner;
  const paired = (await WeightMatrix.loadPaired(bench.gpu, inner, parts, 40))!;
  const gated = await product(paired, x, columns, plain, { kind: 'gate' }, 40);
  expect(largestError(await product(paired, x, columns, only(name), { kind: 'gate' }, 40), gated)).toBeLessThan(
    tolerance,
  );

  const matrix = await bench.matrix(inner, ...parts);
  const gain = await bench.buffer(random.normals(80));
  const emitted = async (choice: ChooseLinear) => {
    const scaled = await bench.zeros(columns * 80);
    const squares = await bench.zeros(columns * 4 * squaresWords(80));
    const output = await product(matrix, x, columns, choice, { kind: 'emit', gain, scaled, squares });
    return [output, await bench.read(scaled), await bench.read(squares)] as const;
  };
  const expected = await emitted(plain);
  (await emitted(only(name))).forEach((values, i) => {
    expect(largestError(values, expected[i]!)).toBeLessThan(tolerance);
  });
});

// SwiftShader takes some seconds to compile what is made for GPUs.
describe.runIf(LONG)('what may win on a GPU', () => {
  test.each(['f32', 'q4-32-f16'] as const)(
    '%s: is right here, and of one order where exact',
    async (format) => {
      const [rows, inner, most] = [200, 256, 70];
      const random = new Random(24);
      const { source, values } = randomMatrix(random, rows, inner, format);
      const matrix = await bench.matrix(inner, source);
      const x = random.normals(most * inner);
      const fragment = { component: 'f32', result: 'f32', m: 8, n: 8, k: 8, subgroup: 32 } as const;
      const features = { has: () => true, packedDot: true, software: false, fragments: [fragment] };
      const part = { tiles: 4, columns: inner, format };
      for (const choice of candidates(part, { finish: 'store', normed: false }, features, 'fast')) {
        const paths = [...choice.matvec, choice.matmul].map(({ path }) => path);
        if (paths.includes('quads') && !bench.gpu.device.features.has('subgroups')) continue;
        const all = await product(matrix, x, most, () => choice);
        const exact = !paths.some((path) => isFast(path));
        for (const columns of [1, 2, 4, 8, most]) {
          const some = await product(matrix, x.slice(0, columns * inner), columns, () => choice);
          if (exact) expect(bits(some)).toEqual(bits(all.slice(0, some.length)));
          for (let c = 0; c < columns; c++) {
            const column = x.slice(c * inner, (c + 1) * inner);
            const expected = linearReference(values, rows, column);
            paddedRow(some, rows, c).forEach((sum, row) => {
              const size = lengthOf(column) * lengthOf(values.subarray(row * inner, (row + 1) * inner));
              expect(Math.abs(sum - expected[row]!)).toBeLessThan(
                size * Math.max(...paths.map((path) => LINEAR_TOLERANCES[path])),
              );
            });
          }
        }
      }
    },
    240_000,
  );
});
