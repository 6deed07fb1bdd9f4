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
  ]);
  const output = await bench.rows(new Float32Array(9 * columns).fill(5), columns);
  const embedding = await Embedding.create(cut.gpu, matrix, {
    step,
    lastIds: await bench.buffer(Uint32Array.of(31, 3, 12)),
    output,
  });
  await bench.run((pass) => embedding.encode(pass, 9));
  const actual = await bench.read(output);
  [...prompt, 3, 31].forEach((id, row) => {
    expect(bits(paddedRow(actual, columns, row))).toEqual(
      bits(embeddingReference(values, columns, id) as Float32Array<ArrayBuffer>),
    );
  });
  if (cut !== bench) cut.close();
});
