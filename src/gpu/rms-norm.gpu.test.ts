import { afterAll, beforeAll, expect, test } from 'vitest';
import { rmsNormReference } from './rms-norm.reference.ts';
import { RmsNorm } from './rms-norm.ts';
import { GREEDY_ENTRY, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each([
  [1, 1],
  [1, 8],
  [3, 37],
  [2, 64],
  [5, 259],
  [1, 576],
  [9, 1021],
])('%i rows of %i columns', async (rows, columns) => {
  const random = new Random(rows * 1000 + columns);
  const [x, weight] = [random.normals(rows * columns, 3), random.normals(columns)];
  const output = await bench.rows(new Float32Array(rows * columns), columns);
  const norm = await RmsNorm.create(
    bench.gpu,
    { columns, epsilon: 1e-5, of: 'rows' },
    {
      step: await bench.rowsStep(rows),
      input: await bench.rows(x, columns),
      weight: await bench.rows(weight, columns),
      output,
    },
  );
  await bench.run((pass) => norm.encode(pass, rows));
  const actual = await bench.read(output);
  for (let row = 0; row < rows; row++) {
    const expected = rmsNormReference(x.slice(row * columns, (row + 1) * columns), weight, 1e-5);
    expect(largestError(paddedRow(actual, columns, row), expected)).toBeLessThan(1e-5);
  }
});

test('epsilon keeps a row of zeros at zero', async () => {
  const output = await bench.buffer(new Float32Array(8).fill(7));
  const norm = await RmsNorm.create(
    bench.gpu,
    { columns: 8, epsilon: 1e-6, of: 'rows' },
    {
      step: await bench.rowsStep(1),
      input: await bench.zeros(8),
      weight: await bench.buffer(new Float32Array(8).fill(1)),
      output,
    },
  );
  await bench.run((pass) => norm.encode(pass, 1));
  expect([...(await bench.read(output, 8))]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
});

test('gathers the rows that logits are wanted of', async () => {
  const [rows, columns, wanted] = [7, 12, [1, 4, 4, 6]];
  const random = new Random(5);
  const [x, weight] = [random.normals(rows * columns), random.normals(columns)];
  const { buffer: step } = await bench.step(
    [{ slot: 0, tokens: new Uint32Array(rows), startPosition: 0, blockTable: [0] }],
    wanted.map((row) => ({ ...GREEDY_ENTRY, row })),
  );
  const output = await bench.zeros(wanted.length * columns);
  const norm = await RmsNorm.create(
    bench.gpu,
    { columns, epsilon: 1e-5, of: 'logits' },
    { step, input: await bench.buffer(x), weight: await bench.buffer(weight), output },
  );
  await bench.run((pass) => norm.encode(pass, wanted.length));
  const actual = await bench.read(output);
  wanted.forEach((row, i) => {
    const expected = rmsNormReference(x.slice(row * columns, (row + 1) * columns), weight, 1e-5);
    expect(largestError(paddedRow(actual, columns, i), expected)).toBeLessThan(1e-5);
  });
});

test('more rows than workgroups fit in x', async () => {
  const [rows, columns] = [66_000, 4];
  const x = new Random(6).normals(rows * columns);
  const weight = new Float32Array(columns).fill(1);
  const output = await bench.zeros(rows * columns);
  const norm = await RmsNorm.create(
    bench.gpu,
    { columns, epsilon: 1e-5, of: 'rows' },
    {
      step: await bench.buffer(Uint32Array.of(rows)),
      input: await bench.buffer(x),
      weight: await bench.buffer(weight),
      output,
    },
  );
  await bench.run((pass) => norm.encode(pass, rows));
  const actual = await bench.read(output);
  for (const row of [0, 65_534, 65_535, 65_536, rows - 1]) {
    const expected = rmsNormReference(x.slice(row * columns, (row + 1) * columns), weight, 1e-5);
    expect(largestError(paddedRow(actual, columns, row), expected)).toBeLessThan(1e-5);
  }
});
