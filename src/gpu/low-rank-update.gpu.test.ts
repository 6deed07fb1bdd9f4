import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type LowRankShape, LowRankSlots, lowRankBytes, shrunkNumbers } from './low-rank-slots.ts';
import { lowRankReference } from './low-rank-update.reference.ts';
import { LowRankUpdate } from './low-rank-update.ts';
import { NormInput, squaresWords } from './norm-input.ts';
import type { SequenceEntry } from './pack-step.ts';
import { rmsNormReference } from './rms-norm.reference.ts';
import { rowWords } from './row-words.ts';
import { bits, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { anyUpdates, stepOf } from './testing/low-rank.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

describe.each([
  {
    columns: 64,
    outputs: [64, 32, 32],
    maxRank: 8,
    ranks: [
      [8, 3, 1],
      [0, 8, 0],
      [4, 4, 4],
    ],
  },
  {
    columns: 5,
    outputs: [7, 9],
    maxRank: 3,
    ranks: [
      [3, 2],
      [1, 0],
      [0, 0],
    ],
  },
  {
    columns: 172,
    outputs: [171, 171],
    maxRank: 64,
    ranks: [
      [64, 64],
      [16, 1],
      [0, 5],
    ],
  },
  { columns: 1, outputs: [1], maxRank: 1, ranks: [[1], [0], [1]] },
  {
    columns: 64,
    outputs: [64, 32, 32],
    maxRank: 64,
    ranks: [
      [64, 33, 4],
      [0, 64, 7],
      [5, 0, 0],
    ],
  },
  { columns: 1100, outputs: [3], maxRank: 4, ranks: [[4], [2], [1]] },
])('$columns columns, outputs $outputs, ranks up to $maxRank', ({ columns, outputs, maxRank, ranks }) => {
  const shape: LowRankShape = { label: 'test', columns, outputs, maxRank, slots: 3 };
  const all = outputs.reduce((sum, count) => sum + count, 0);
  const stride = 4 * rowWords(all);

  async function run(
    slots: LowRankSlots,
    sequences: readonly SequenceEntry[],
    x: Float32Array,
    before: Float32Array,
    scale: number,
    norm?: { readonly gain: Float32Array; readonly epsilon: number },
  ): Promise<Float32Array<ArrayBuffer>> {
    const rows = x.length / columns;
    const { buffer: step } = await bench.step(sequences);
    const [output, shrunk] = [await bench.rows(before, all), await bench.zeros(rows * shrunkNumbers(shape))];
    let input = await bench.rows(x, columns);
    const squares = await bench.zeros(rows * 4 * squaresWords(columns));
    if (norm) {
      const scaled = await bench.zeros(rows * 4 * rowWords(columns));
      const gain = await bench.rows(norm.gain, columns);
      const kernel = await NormInput.create(bench.gpu, columns, { step, input, gain, scaled, squares });
      await bench.run((pass) => kernel.encode(pass, rows));
      input = scaled;
    }
    const update = await LowRankUpdate.create(
      bench.gpu,
      slots,
      { finish: { kind: 'add', outputStride: stride, scale }, norm: norm && { epsilon: norm.epsilon, squares } },
      { step, input, shrunk, output },
    );
    await bench.run((pass) => update.encode(pass, rows));
    return bench.read(output);
  }

  test.each([1, 0.22])('each row has what its adapter makes of it, times %f', async (scale) => {
    const random = new Random(columns + all);
    const slots = await LowRankSlots.create(bench.gpu, shape);
    const adapters = ranks.map((some) => anyUpdates(random, shape, some));
    expect(slots.a.size + slots.b.size + slots.counts.size).toBe(lowRankBytes(shape));
    // What a slot held before is gone.
    slots.write(
      1,
      anyUpdates(
        random,
        shape,
        outputs.map(() => maxRank),
      ),
    );
    adapters.forEach((updates, slot) => {
      slots.write(slot, updates);
    });
    const sequences = stepOf([[2, 1], [1], [1, 0], [3, 2], [2]]);
    const owners = [1, 1, undefined, 0, 2, 2, 2, undefined, undefined];
    const x = random.normals(owners.length * columns);
    const before = random.normals(owners.length * all);
    const gain = random.normals(columns);
    const epsilon = 1e-5;
    for (const norm of [undefined, { gain, epsilon }]) {
      const after = await run(slots, sequences, x, before, scale, norm);
      owners.forEach((owner, row) => {
        const own = x.slice(row * columns, (row + 1) * columns);
        const input = norm ? rmsNormReference(own, gain, epsilon) : own;
        const old = before.slice(row * all, (row + 1) * all);
        if (owner === undefined) {
          expect(bits(paddedRow(after, all, row))).toEqual(bits(old));
          return;
        }
        let at = 0;
        const expected = old.slice();
        adapters[owner]!.forEach((update, module) => {
          const added = update && lowRankReference(update, input);
          added?.forEach((value, i) => {
            expected[at + i]! += scale * value;
          });
          at += outputs[module]!;
        });
        expect(largestError(paddedRow(after, all, row), expected)).toBeLessThan(2e-5);
      });
      // Alone as in company.
      const alone = await run(
        slots,
        stepOf([[1, 0]]),
        x.slice(3 * columns, 4 * columns),
        before.slice(3 * all, 4 * all),
        scale,
        norm,
      );
      expect(bits(paddedRow(alone, all, 0))).toEqual(bits(paddedRow(after, all, 3)));
    }
  });
});

test('an update that is none of the shape is refused', async () => {
  const shape = { label: 'q', columns: 8, outputs: [4], maxRank: 2, slots: 1 };
  const slots = await LowRankSlots.create(bench.gpu, shape);
  const zeros = (rank: number, columns = 8) => ({
    rank,
    a: new Float32Array(rank * columns),
    b: new Float32Array(4 * rank),
  });
  expect(() => slots.write(0, [zeros(3)])).toThrow(/q: .*rank 3, at most 2/);
  expect(() => slots.write(0, [zeros(2, 7)])).toThrow(RangeError);
  expect(() => slots.write(1, [zeros(2)])).toThrow('q: adapter slot 1 of 1');
});
