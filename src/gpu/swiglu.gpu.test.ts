import { afterAll, beforeAll, expect, test } from 'vitest';
import { swigluReference } from './swiglu.reference.ts';
import { Swiglu } from './swiglu.ts';
import { KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each([
  [1, 1],
  [3, 43],
  [2, 172],
  [5, 65],
])('%i rows of %i columns', async (rows, columns) => {
  const x = new Random(columns).normals(rows * 2 * columns, 4);
  // Gates at the ends of exp.
  x.set([100, -100, 3e4, -3e4].slice(0, columns));
  const output = await bench.rows(new Float32Array(rows * columns), columns);
  const swiglu = await Swiglu.create(bench.gpu, columns, {
    step: await bench.rowsStep(rows),
    input: await bench.rows(x, 2 * columns),
    output,
  });
  await bench.run((pass) => swiglu.encode(pass, rows));
  const actual = await bench.read(output);
  for (let row = 0; row < rows; row++) {
    const expected = swigluReference(x.slice(row * 2 * columns, (row + 1) * 2 * columns));
    expect(largestError(paddedRow(actual, columns, row), expected)).toBeLessThan(1e-5);
  }
});
