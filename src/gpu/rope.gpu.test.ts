import { afterAll, beforeAll, expect, test } from 'vitest';
import { KvPool } from './kv-pool.reference.ts';
import { ropeReference } from './rope.reference.ts';
import { Rope } from './rope.ts';
import { plainTurns, ropeTable } from './rope-table.ts';
import { KernelBench, largestError } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each([
  [8, 8, 4],
  [20, 7, 1],
  [64, 2, 2],
  [80, 3, 1],
  [128, 2, 1],
])(
  'head size %i, %i heads on %i: rotates q, and k into its blocks; v goes there as it is',
  async (headSize, heads, kvHeads) => {
    const positions = 70;
    const blocks = 9;
    const random = new Random(headSize);
    const table = ropeTable(positions, plainTurns(headSize, 10_000));
    const order = random.permutation(blocks);
    const sequences = [
      { slot: 0, tokens: new Uint32Array(21), startPosition: 14, blockTable: order.slice(0, 3) },
      { slot: 1, tokens: 'slot' as const, startPosition: 69, blockTable: order.slice(3, 8) },
      { slot: 2, tokens: new Uint32Array(2), startPosition: 0, blockTable: order.slice(8) },
    ];
    const rows = 24;
    const columns = (heads + 2 * kvHeads) * headSize;
    const qkv = random.normals(rows * columns);
    const { buffer: step } = await bench.step(sequences);
    const pool = new KvPool(blocks, kvHeads, headSize);
    pool.values.fill(0.25);
    const [kv, query] = [await bench.buffer(pool.values), await bench.zeros(rows * heads * headSize)];
    const rope = await Rope.create(
      bench.gpu,
      { heads, kvHeads, headSize, kvFormat: 'f32' },
      { step, qkv: await bench.buffer(qkv), table: await bench.buffer(table), query, kv },
    );
    await bench.run((pass) => rope.encode(pass, rows));

    const queries = await bench.read(query, rows * heads * headSize);
    let row = 0;
    for (const { tokens, startPosition, blockTable } of sequences) {
      const count = tokens === 'slot' ? 1 : tokens.length;
      for (let i = 0; i < count; i++, row++) {
        const position = startPosition + i;
        const head = (h: number) => qkv.slice(row * columns + h * headSize, row * columns + (h + 1) * headSize);
        for (let h = 0; h < heads; h++) {
          const at = (row * heads + h) * headSize;
          expect(largestError(queries.slice(at, at + headSize), ropeReference(head(h), table, position))).toBeLessThan(
            1e-6,
          );
        }
        for (let h = 0; h < kvHeads; h++) {
          pool.at('key', blockTable, position, h).set(ropeReference(head(heads + h), table, position));
          pool.at('value', blockTable, position, h).set(head(heads + kvHeads + h));
        }
      }
    }
    // The whole pool: what was not to be written is as it was.
    expect(largestError(await bench.read(kv, pool.values.length), pool.values)).toBeLessThan(1e-6);
  },
);

test('the table is right where a shader would lose digits', () => {
  const table = ropeTable(65_001, plainTurns(8, 10_000));
  // i = 0: the angle is the position itself.
  expect(table[65_000 * 8]!).toBeCloseTo(Math.cos(65_000), 7);
  expect(table[65_000 * 8 + 1]!).toBeCloseTo(Math.sin(65_000), 7);
});
