import { afterAll, beforeAll, expect, test } from 'vitest';
import { encoderEmbeddingReference } from './encoder-embedding.reference.ts';
import { EncoderEmbedding } from './encoder-embedding.ts';
import { bits, KernelBench, paddedRow } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { type MatrixFormat, tileBytes } from './weight-format.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each<[MatrixFormat, number, number]>([
  ['f32', 48, 0],
  ['f32', 37, 1],
  ['f16', 5, 2],
  ['bf16', 8, 0],
  ['q4-32-f16', 32, 1],
  ['q8-32-f32', 96, 0],
])('%s, %i columns, parts of %i tiles (0: uncut)', async (format, columns, partTiles) => {
  const random = new Random(columns);
  const { source, values } = randomMatrix(random, 150, columns, format);
  const cut = partTiles === 0 ? bench : await KernelBench.open(partTiles * tileBytes(format, columns));
  const matrix = await cut.matrix(columns, source);
  const types = random.normals(2 * columns);
  const positions = random.normals(9 * columns);
  const rows = [
    { id: 0, position: 0, type: 0 },
    { id: 149, position: 1, type: 0 },
    { id: 63, position: 2, type: 1 },
    { id: 64, position: 8, type: 1 },
    { id: 127, position: 8, type: 0 },
    { id: 128, position: 0, type: 1 },
    { id: 11, position: 3, type: 1 },
  ];
  const output = await bench.rows(new Float32Array(8 * columns).fill(5), columns);
  const embedding = await EncoderEmbedding.create(cut.gpu, matrix, {
    step: await bench.rowsStep(rows.length),
    rows: await bench.buffer(Uint32Array.from(rows.flatMap(({ id, position, type }) => [id, position, type, 0]))),
    types: await bench.rows(types, columns),
    positions: await bench.rows(positions, columns),
    output,
  });
  await bench.run((pass) => embedding.encode(pass, rows.length));
  const actual = await bench.read(output);
  rows.forEach((row, i) => {
    const expected = encoderEmbeddingReference({ words: values, types, positions }, columns, row);
    expect(bits(paddedRow(actual, columns, i))).toEqual(bits(expected));
  });
  // Rows past the step's stay as they were.
  expect(paddedRow(actual, columns, rows.length).every((value) => value === 5)).toBe(true);
  if (cut !== bench) cut.close();
});
