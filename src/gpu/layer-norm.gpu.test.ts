import { afterAll, beforeAll, expect, test } from 'vitest';
import { layerNormReference } from './layer-norm.reference.ts';
import { LayerNorm } from './layer-norm.ts';
import { GREEDY_ENTRY, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each([
  [1, 1, false],
  [3, 37, true],
  [2, 64, false],
  [5, 259, true],
  [1, 1021, false],
])('%i rows of %i columns, a residual: %s', async (rows, columns, added) => {
  const random = new Random(rows * 1000 + columns);
  // A mean far from 0: squares less the square of the mean would cancel.
  const x = random.normals(rows * columns, 3).map((value) => value + 100);
  const [y, weight, bias] = [random.normals(rows * columns), random.normals(columns), random.normals(columns)];
  const output = await bench.rows(new Float32Array(rows * columns), columns);
  const norm = await LayerNorm.create(
    bench.gpu,
    { columns, epsilon: 1e-5, of: 'rows' },
    {
      step: await bench.rowsStep(rows),
      input: await bench.rows(x, columns),
      weight: await bench.rows(weight, columns),
      bias: await bench.rows(bias, columns),
      residual: added ? await bench.rows(y, columns) : undefined,
      output,
    },
  );
  await bench.run((pass) => norm.encode(pass, rows));
  const actual = await bench.read(output);
  for (let row = 0; row < rows; row++) {
    const own = x.slice(row * columns, (row + 1) * columns);
    const sum = added ? own.map((value, i) => Math.fround(value + y[row * columns + i]!)) : own;
    const expected = layerNormReference(sum, weight, bias, 1e-5);
    expect(largestError(paddedRow(actual, columns, row), expected)).toBeLessThan(5e-5);
  }
});

test('a row of one number over and over becomes the bias', async () => {
  const output = await bench.zeros(8);
  const norm = await LayerNorm.create(
    bench.gpu,
    { columns: 8, epsilon: 1e-12, of: 'rows' },
    {
      step: await bench.rowsStep(1),
      input: await bench.buffer(new Float32Array(8).fill(3)),
      weight: await bench.buffer(new Float32Array(8).fill(1)),
      bias: await bench.buffer(new Float32Array(8).fill(0.5)),
      output,
    },
  );
  await bench.run((pass) => norm.encode(pass, 1));
  expect([...(await bench.read(output, 8))]).toEqual(new Array(8).fill(0.5));
});

test('gathers the rows that logits are wanted of', async () => {
  const [rows, columns, wanted] = [7, 12, [1, 4, 4, 6]];
  const random = new Random(5);
  const [x, weight, bias] = [random.normals(rows * columns), random.normals(columns), random.normals(columns)];
  const { buffer: step } = await bench.step(
    [{ slot: 0, tokens: new Uint32Array(rows), startPosition: 0, blockTable: [0] }],
    wanted.map((row) => ({ ...GREEDY_ENTRY, row })),
  );
  const output = await bench.zeros(wanted.length * columns);
  const shape = { columns, epsilon: 1e-5, of: 'logits' } as const;
  const buffers = {
    ...{ step, output, input: await bench.buffer(x) },
    ...{ weight: await bench.buffer(weight), bias: await bench.buffer(bias) },
  };
  const norm = await LayerNorm.create(bench.gpu, shape, buffers);
  await bench.run((pass) => norm.encode(pass, wanted.length));
  const actual = await bench.read(output);
  wanted.forEach((row, i) => {
    const expected = layerNormReference(x.slice(row * columns, (row + 1) * columns), weight, bias, 1e-5);
    expect(largestError(paddedRow(actual, columns, i), expected)).toBeLessThan(1e-5);
  });
  await expect(LayerNorm.create(bench.gpu, shape, { ...buffers, residual: output })).rejects.toThrow(/residual/);
});
