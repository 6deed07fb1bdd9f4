import { afterAll, beforeAll, expect, test } from 'vitest';
import { embeddingReference } from './embedding.reference.ts';
import { Embedding } from './embedding.ts';
import { bits, KernelBench, paddedRow } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { rowBytes, type WeightFormat } from './weight-format.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each<[WeightFormat, number, number]>([
  ['f32', 64, 0],
  ['f32', 37, 10],
  ['f16', 21, 7],
  ['bf16', 8, 0],
])('%s, %i columns, parts of %i rows (0: uncut)', async (format, columns, partRows) => {
  const ids = 33;
  const { source, values } = randomMatrix(new Random(columns), ids, columns, format);
  const cut = partRows === 0 ? bench : await KernelBench.open(partRows * rowBytes(format, columns));
  const matrix = await cut.matrix(columns, source);
  expect(matrix.parts.length).toBe(partRows === 0 ? 1 : Math.ceil(ids / partRows));
  const prompt = [0, 32, 9, 10, 11, 9, 20];
  const { buffer: step } = await bench.step([
    { slot: 2, tokens: prompt, startPosition: 0, blockTable: [0] },
    { slot: 1, tokens: 'slot', startPosition: 5, blockTable: [1] },
    { slot: 0, tokens: 'slot', startPosition: 9, blockTable: [2] },
    { slot: 3, tokens: { length: 2 }, embedded: true, startPosition: 0, blockTable: [3] },
  ]);
  const output = await bench.rows(new Float32Array(11 * columns).fill(5), columns);
  const embedding = await Embedding.create(cut.gpu, matrix, {
    step,
    lastIds: await bench.buffer(Uint32Array.of(31, 3, 12)),
    output,
  });
  const given = new Random(columns + 1).normals(2 * columns);
  embedding.give(9, given);
  await bench.run((pass) => embedding.encode(pass, 11));
  const actual = await bench.read(output);
  [...prompt, 3, 31].forEach((id, row) => {
    expect(bits(paddedRow(actual, columns, row))).toEqual(
      bits(embeddingReference(values, columns, id) as Float32Array<ArrayBuffer>),
    );
  });
  for (const i of [0, 1]) {
    expect(bits(paddedRow(actual, columns, 9 + i))).toEqual(bits(given.slice(i * columns, (i + 1) * columns)));
  }
  if (cut !== bench) cut.close();
});
