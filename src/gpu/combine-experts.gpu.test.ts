import { afterAll, beforeAll, expect, test } from 'vitest';
import { combineReference } from './combine-experts.reference.ts';
import { CombineExperts, type CombineFinish } from './combine-experts.ts';
import { squaresOf } from './linear-trial.ts';
import { squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';
import { KernelBench, largestError } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each([
  [1, 1, 1],
  [3, 2, 48],
  [5, 3, 67],
  [2, 8, 130],
])('%i rows of %i experts of %i numbers are added up by their shares', async (rows, chosen, columns) => {
  const random = new Random(columns);
  const shares = random.normals(rows * chosen);
  const made = random.normals(rows * chosen * columns);
  const before = random.normals(rows * columns);
  const gain = random.normals(columns);
  const stride = 4 * rowWords(columns);
  const sums = Array.from({ length: rows }, (_, row) => {
    const own = made.subarray(row * chosen * columns, (row + 1) * chosen * columns);
    return [...combineReference([...shares.subarray(row * chosen, (row + 1) * chosen)], own)];
  }).flat();
  const step = await bench.rowsStep(rows);
  const scaled = await bench.zeros(rows * stride);
  const squares = await bench.zeros(rows * 4 * squaresWords(columns));
  const unpadded = (values: Float32Array) =>
    Float32Array.from({ length: rows * columns }, (_, i) => values[Math.floor(i / columns) * stride + (i % columns)]!);
  const run = async (finish: CombineFinish) => {
    const output = await bench.rows(before, columns);
    const buffers = { step, shares: await bench.buffer(shares), made: await bench.rows(made, columns), output };
    const kernel = await CombineExperts.create(bench.gpu, { columns, chosen }, finish, buffers);
    await bench.run((pass) => kernel.encode(pass, rows));
    return unpadded(await bench.read(output));
  };
  expect(largestError(await run({ kind: 'store' }), Float32Array.from(sums))).toBeLessThan(1e-6);
  const added = Float32Array.from(sums, (sum, i) => before[i]! + 0.5 * sum);
  expect(largestError(await run({ kind: 'add', scale: 0.5 }), added)).toBeLessThan(1e-6);
  const emit = { kind: 'emit', scale: 0.5, gain: await bench.rows(gain, columns), scaled, squares } as const;
  expect(largestError(await run(emit), added)).toBeLessThan(1e-6);
  const expected = added.map((x, i) => x * gain[i % columns]!);
  expect(largestError(unpadded(await bench.read(scaled)), expected)).toBeLessThan(1e-6);
  const ofSquares = squaresOf(added, columns);
  expect(largestError(await bench.read(squares, ofSquares.length), ofSquares)).toBeLessThan(1e-5);
});
