import { afterAll, beforeAll, expect, test } from 'vitest';
import { AddNormed } from './add-normed.ts';
import { NormInput, squaresWords } from './norm-input.ts';
import { rmsNormReference } from './rms-norm.reference.ts';
import { rowWords } from './row-words.ts';
import { bits, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each([
  [1, 1, 1, true],
  [3, 37, 0.5, false],
  [2, 64, 1, true],
  [5, 259, 0.22, true],
  [1, 1021, 1, true],
])('%i rows of %i columns at scale %f, a norm after it: %s', async (rows, columns, scale, emits) => {
  const random = new Random(rows * 1000 + columns);
  const [x, y] = [random.normals(rows * columns, 3), random.normals(rows * columns)];
  const [weight, gains] = [random.normals(columns), random.normals(columns)];
  const step = await bench.rowsStep(rows);
  const hidden = await bench.rows(y, columns);
  const gain = await bench.rows(gains, columns);
  const nextBuffers = async () => ({
    gain,
    scaled: await bench.zeros(rows * 4 * rowWords(columns)),
    squares: await bench.zeros(rows * 4 * squaresWords(columns)),
  });
  const [next, apart] = [await nextBuffers(), await nextBuffers()];
  const add = await AddNormed.create(
    bench.gpu,
    { columns, epsilon: 1e-5, scale },
    {
      ...{ step, hidden, next: emits ? next : undefined },
      branch: await bench.rows(x, columns),
      weight: await bench.rows(weight, columns),
    },
  );
  const after = await NormInput.create(bench.gpu, columns, { step, input: hidden, ...apart });
  await bench.run((pass) => {
    add.encode(pass, rows);
    after.encode(pass, rows);
  });
  const actual = await bench.read(hidden);
  for (let row = 0; row < rows; row++) {
    const own = rmsNormReference(x.slice(row * columns, (row + 1) * columns), weight, 1e-5);
    const expected = own.map((value, i) => y[row * columns + i]! + scale * value);
    expect(largestError(paddedRow(actual, columns, row), expected)).toBeLessThan(1e-5);
  }
  const unwritten = new Float32Array(next.scaled.size / 4);
  const scaled = await bench.read(next.scaled);
  expect(bits(scaled)).toEqual(bits(emits ? await bench.read(apart.scaled) : unwritten));
  if (emits) expect(bits(await bench.read(next.squares))).toEqual(bits(await bench.read(apart.squares)));
});
