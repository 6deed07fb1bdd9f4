import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ActivateRows } from './activate-rows.ts';
import { activationReference } from './activation.reference.ts';
import { ACTIVATIONS } from './activation.ts';
import { KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

describe.each(ACTIVATIONS)('%s', (activation) => {
  test.each([
    [1, 1, false, false],
    [3, 43, true, false],
    [2, 172, false, true],
    [5, 65, true, true],
  ])('%i rows of %i columns, gated %s, biased %s', async (rows, columns, gated, biased) => {
    const inputs = gated ? 2 * columns : columns;
    const random = new Random(columns);
    const x = random.normals(rows * inputs, 4);
    // The ends of exp, and where an approximation of erf changes its sign.
    x.set([100, -100, 3e4, -3e4, 0, 1e-6, -1e-6].slice(0, columns));
    const bias = random.normals(inputs);
    const output = await bench.rows(new Float32Array(rows * columns), columns);
    const activate = await ActivateRows.create(
      bench.gpu,
      { columns, activation, gated },
      {
        step: await bench.rowsStep(rows),
        input: await bench.rows(x, inputs),
        bias: biased ? await bench.rows(bias, inputs) : undefined,
        output,
      },
    );
    await bench.run((pass) => activate.encode(pass, rows));
    const actual = await bench.read(output);
    for (let row = 0; row < rows; row++) {
      const at = (column: number) => Math.fround(x[row * inputs + column]! + (biased ? bias[column]! : 0));
      const expected = Float32Array.from(
        { length: columns },
        (_, column) => activationReference(activation, at(column)) * (gated ? at(columns + column) : 1),
      );
      // Of numbers up to 3e4, float32 has 2e-3; others are a few.
      const own = paddedRow(actual, columns, row);
      own.forEach((value, i) => {
        expect(Math.abs(value - expected[i]!)).toBeLessThan(1e-5 + 2e-6 * Math.abs(expected[i]!));
      });
      expect(largestError(own, expected)).toBeLessThan(0.2);
    }
  });
});
