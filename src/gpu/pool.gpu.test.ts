import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { poolReference } from './pool.reference.ts';
import { Pool, type PoolKind } from './pool.ts';
import { bits, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** Pooled rows of sequences of these lengths, whose rows are `values`. */
async function pool(kind: PoolKind, columns: number, lengths: readonly number[], values: Float32Array<ArrayBuffer>) {
  const sequences = lengths.map((length, slot) => ({
    slot,
    tokens: new Uint32Array(length),
    startPosition: 0,
    blockTable: Array.from({ length: Math.ceil(length / 16) }, (_, i) => i),
  }));
  const { buffer: step } = await bench.step(sequences);
  const output = await bench.rows(new Float32Array((lengths.length + 1) * columns).fill(7), columns);
  const kernel = await Pool.create(bench.gpu, columns, kind, {
    step,
    input: await bench.rows(values, columns),
    output,
  });
  await bench.run((pass) => kernel.encode(pass, lengths.length));
  const pooled = await bench.read(output);
  expect(paddedRow(pooled, columns, lengths.length).every((value) => value === 7)).toBe(true);
  return lengths.map((_, i) => paddedRow(pooled, columns, i));
}

test.each(['mean', 'cls', 'last', 'max'] as const)(
  '%s is the reference, whatever is beside a sequence',
  async (kind) => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(1, 4, 37, 48, 384),
        fc.array(fc.oneof(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 130 })), {
          minLength: 1,
          maxLength: 5,
        }),
        fc.integer({ min: 1, max: 1 << 20 }),
        async (columns, lengths, seed) => {
          const total = lengths.reduce((sum, length) => sum + length, 0);
          const values = new Random(seed).normals(total * columns, 3);
          const pooled = await pool(kind, columns, lengths, values);
          let at = 0;
          for (const [i, length] of lengths.entries()) {
            const own = values.slice(at * columns, (at + length) * columns);
            expect(largestError(pooled[i]!, Float32Array.from(poolReference(own, columns, kind)))).toBeLessThan(1e-6);
            if (i === lengths.length - 1) {
              const [alone] = await pool(kind, columns, [length], own);
              expect(bits(pooled[i]!)).toEqual(bits(alone!));
            }
            at += length;
          }
        },
      ),
      { numRuns: 8 },
    );
  },
);
