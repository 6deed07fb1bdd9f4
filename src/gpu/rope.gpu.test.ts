import { afterAll, beforeAll, expect, test } from 'vitest';
import { KvPool } from './kv-pool.reference.ts';
import { qkNormReference } from './qk-norm.reference.ts';
import { ropeReference } from './rope.reference.ts';
import { Rope, type RopeShape } from './rope.ts';
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

test.each<[string, number, number, number, Partial<RopeShape>]>([
  ['biases alone', 8, 2, 1, { biased: true }],
  ['nothing rotated', 20, 3, 1, { rotated: 0 }],
  ['three fourths rotated', 16, 4, 2, { rotated: 12 }],
  ['a norm of each head', 64, 3, 1, { qkNorm: { of: 'head', epsilon: 1e-6 } }],
  [
    'a norm of each head, biases, half rotated',
    12,
    2,
    2,
    { qkNorm: { of: 'head', epsilon: 1e-2 }, biased: true, rotated: 6 },
  ],
  ['a norm of rows', 20, 7, 1, { qkNorm: { of: 'row', epsilon: 1e-6 } }],
  ['a norm of rows, biases, nothing rotated', 8, 1, 1, { qkNorm: { of: 'row', epsilon: 1 }, biased: true, rotated: 0 }],
])('%s: heads of %i, %i on %i', async (_, headSize, heads, kvHeads, more) => {
  const shape: RopeShape = { heads, kvHeads, headSize, kvFormat: 'f32', ...more };
  const { rotated = headSize, qkNorm, biased = false } = shape;
  const [rows, blocks, start] = [5, 3, 14];
  const random = new Random(headSize + heads);
  const columns = (heads + 2 * kvHeads) * headSize;
  const qkv = random.normals(rows * columns, 2);
  // Whatever lies in the place of biases that there are none of is not read.
  const biases = biased ? random.normals(columns) : new Float32Array(columns).fill(Number.NaN);
  const gains = random.normals((qkNorm?.of === 'row' ? heads + kvHeads : 2) * headSize);
  const table = ropeTable(32, plainTurns(rotated, 100));
  const blockTable = [2, 0];
  const { buffer: step } = await bench.step([
    { slot: 0, tokens: new Uint32Array(rows), startPosition: start, blockTable },
  ]);
  const pool = new KvPool(blocks, kvHeads, headSize);
  pool.values.fill(0.25);
  const [kv, query] = [await bench.buffer(pool.values), await bench.zeros(rows * heads * headSize)];
  const rope = await Rope.create(bench.gpu, shape, {
    ...{ step, query, kv, qkv: await bench.buffer(qkv) },
    table: rotated > 0 ? await bench.buffer(table) : undefined,
    more: await bench.buffer(Float32Array.of(...biases, ...gains)),
  });
  await bench.run((pass) => rope.encode(pass, rows));
  const queries = await bench.read(query, rows * heads * headSize);
  for (let row = 0; row < rows; row++) {
    const plain = qkv.slice(row * columns, (row + 1) * columns).map((x, i) => (biased ? x + biases[i]! : x));
    const normed = qkNorm ? qkNormReference(plain, gains, shape, qkNorm.of, qkNorm.epsilon) : plain;
    const head = (h: number) => normed.slice(h * headSize, (h + 1) * headSize);
    for (let h = 0; h < heads; h++) {
      const at = (row * heads + h) * headSize;
      const expected = ropeReference(head(h), table, start + row, rotated);
      expect(largestError(queries.slice(at, at + headSize), expected)).toBeLessThan(2e-6);
    }
    for (let h = 0; h < kvHeads; h++) {
      pool.at('key', blockTable, start + row, h).set(ropeReference(head(heads + h), table, start + row, rotated));
      pool.at('value', blockTable, start + row, h).set(head(heads + kvHeads + h));
    }
  }
  expect(largestError(await bench.read(kv, pool.values.length), pool.values)).toBeLessThan(2e-6);
});

test('what a shape needs is asked for', async () => {
  const shape = { heads: 1, kvHeads: 1, headSize: 4, kvFormat: 'f32' } as const;
  const any = await bench.zeros(64);
  const buffers = { step: any, qkv: any, query: any, kv: any, table: undefined };
  await expect(Rope.create(bench.gpu, shape, buffers)).rejects.toThrow('a rotation needs its table');
  await expect(Rope.create(bench.gpu, { ...shape, rotated: 0, biased: true }, buffers)).rejects.toThrow(/biases/);
});

test('a factor multiplies both cos and sin', () => {
  const plain = ropeTable(7, plainTurns(8, 10_000));
  const stretched = ropeTable(7, { ...plainTurns(8, 10_000), factor: 1.25 });
  expect(
    largestError(
      stretched,
      plain.map((value) => 1.25 * value),
    ),
  ).toBeLessThan(1e-7);
});

test('the table is right where a shader would lose digits', () => {
  const table = ropeTable(65_001, plainTurns(8, 10_000));
  // i = 0: the angle is the position itself.
  expect(table[65_000 * 8]!).toBeCloseTo(Math.cos(65_000), 7);
  expect(table[65_000 * 8 + 1]!).toBeCloseTo(Math.sin(65_000), 7);
});
