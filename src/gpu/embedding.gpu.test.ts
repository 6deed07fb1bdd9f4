import { afterAll, beforeAll, expect, test } from 'vitest';
import { embeddingReference } from './embedding.reference.ts';
import { Embedding } from './embedding.ts';
import { NormInput, squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';
import { bits, KernelBench, largestError, paddedRow } from './testing/kernel-bench.ts';
import { randomMatrix } from './testing/matrices.ts';
import { Random } from './testing/random.ts';
import { type MatrixFormat, tileBytes } from './weight-format.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

test.each<[MatrixFormat, number, number]>([
  ['f32', 64, 0],
  ['f32', 37, 1],
  ['f16', 21, 2],
  ['bf16', 8, 0],
  ['q4-32-f16', 32, 0],
  ['q4-32-f32', 96, 1],
  ['q4-16-f16', 64, 1],
  ['q4-16-f32', 32, 0],
  ['q8-32-f16', 96, 2],
  ['q8-32-f32', 32, 0],
  ['q8-16-f16', 32, 0],
  ['q8-16-f32', 160, 1],
])('%s, %i columns, parts of %i tiles (0: uncut)', async (format, columns, partTiles) => {
  const ids = 150;
  const { source, values } = randomMatrix(new Random(columns), ids, columns, format);
  const cut = partTiles === 0 ? bench : await KernelBench.open(partTiles * tileBytes(format, columns));
  const matrix = await cut.matrix(columns, source);
  expect(matrix.parts.map((part) => part.format)).toEqual(
    Array(partTiles === 0 ? 1 : Math.ceil(3 / partTiles)).fill(format),
  );
  const prompt = [0, 149, 63, 64, 11, 127, 128];
  const { buffer: step } = await bench.step([
    { slot: 2, tokens: prompt, startPosition: 0, blockTable: [0] },
    { slot: 1, tokens: 'slot', startPosition: 5, blockTable: [1] },
    { slot: 0, tokens: 'slot', startPosition: 9, blockTable: [2] },
    { slot: 3, tokens: { length: 2 }, embedded: true, startPosition: 0, blockTable: [3] },
  ]);
  const output = await bench.rows(new Float32Array(11 * columns).fill(5), columns);
  const lastIds = await bench.buffer(Uint32Array.of(131, 3, 12));
  const embedding = await Embedding.create(cut.gpu, matrix, { step, lastIds, output });
  const given = new Random(columns + 1).normals(2 * columns);
  embedding.give(9, given);
  await bench.run((pass) => embedding.encode(pass, 11));
  const actual = await bench.read(output);
  [...prompt, 3, 131].forEach((id, row) => {
    expect(bits(paddedRow(actual, columns, row))).toEqual(
      bits(embeddingReference(values, columns, id) as Float32Array<ArrayBuffer>),
    );
  });
  for (const i of [0, 1]) {
    expect(bits(paddedRow(actual, columns, 9 + i))).toEqual(bits(given.slice(i * columns, (i + 1) * columns)));
  }

  // The same with what the first norm's product asks for.
  const gain = await bench.rows(given.slice(0, columns), columns);
  const normBuffers = async () => ({
    scaled: await bench.zeros(11 * 4 * rowWords(columns)),
    squares: await bench.zeros(11 * 4 * squaresWords(columns)),
  });
  const [own, apart] = [await normBuffers(), await normBuffers()];
  const again = await bench.rows(new Float32Array(11 * columns).fill(5), columns);
  const normed = await Embedding.create(cut.gpu, matrix, { step, lastIds, output: again, norm: { gain, ...own } });
  normed.give(9, given);
  const after = await NormInput.create(bench.gpu, columns, { step, input: again, gain, ...apart });
  await bench.run((pass) => {
    normed.encode(pass, 11);
    after.encode(pass, 11);
  });
  expect(bits(await bench.read(again))).toEqual(bits(actual));
  expect(bits(await bench.read(own.scaled))).toEqual(bits(await bench.read(apart.scaled)));
  expect(bits(await bench.read(own.squares))).toEqual(bits(await bench.read(apart.squares)));
  if (cut !== bench) cut.close();
});

test.each<[MatrixFormat, number, number]>([
  ['f32', 37, 0],
  ['f16', 21, 1],
  ['q8-32-f16', 64, 0],
])(
  '%s, %i columns: ids at a scale, and learned positions, also of embeddings that are given',
  async (format, columns, partTiles) => {
    const cut = partTiles === 0 ? bench : await KernelBench.open(partTiles * tileBytes(format, columns));
    const random = new Random(columns);
    const [tokens, places] = [randomMatrix(random, 70, columns, format), randomMatrix(random, 130, columns, format)];
    const [matrix, positions] = [await cut.matrix(columns, tokens.source), await cut.matrix(columns, places.source)];
    const { buffer: step } = await bench.step([
      { slot: 0, tokens: [69, 0], startPosition: 63, blockTable: [0] },
      { slot: 1, tokens: { length: 1 }, embedded: true, startPosition: 129, blockTable: [1] },
    ]);
    const output = await bench.rows(new Float32Array(3 * columns), columns);
    const lastIds = await bench.zeros(4);
    const buffers = { step, lastIds, output };
    const embedding = await Embedding.create(cut.gpu, matrix, buffers, { scale: 3 });
    const learned = await Embedding.create(cut.gpu, positions, buffers, { positions: true });
    const given = random.normals(columns);
    embedding.give(2, given);
    await bench.run((pass) => {
      embedding.encode(pass, 3);
      learned.encode(pass, 3);
    });
    const actual = await bench.read(output);
    const own = [69, 0].map((id) => embeddingReference(tokens.values, columns, id).map((value) => 3 * value));
    [...own, given].forEach((values, row) => {
      const place = embeddingReference(places.values, columns, [63, 64, 129][row]!);
      const expected = values.map((value, i) => value + place[i]!);
      expect(largestError(paddedRow(actual, columns, row), expected)).toBeLessThan(2e-6);
    });
    const norm = { gain: output, scaled: output, squares: output };
    await expect(Embedding.create(cut.gpu, positions, { ...buffers, norm }, { positions: true })).rejects.toThrow(
      /norm/,
    );
    if (cut !== bench) cut.close();
  },
);
