import { afterAll, beforeAll, expect, test } from 'vitest';
import { dequantise } from '../checkpoint/ggml-types.ts';
import { Embedding } from '../gpu/embedding.ts';
import { quantShape } from '../gpu/quant-format.ts';
import { KernelBench } from '../gpu/testing/kernel-bench.ts';
import { quantSource } from '../gpu/testing/matrices.ts';
import { readTestFile } from '../testing/read-file.ts';
import { GGML_QUANT_TYPES, ggmlQuantFormat, repackGgml } from './ggml-quants.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** A GPU may take what is smaller for zero: MXFP4's exponents 0 and 1 make such scales. */
const LEAST_NORMAL = 2 ** -126;

test.each(GGML_QUANT_TYPES)('%s: the GPU has the golden values to 1e-6', async (type) => {
  const bytes = await readTestFile(`src/testing/golden/gguf/${type}.bin`);
  const expected = dequantise(type, bytes);
  const columns = 256;
  const rows = expected.length / columns;
  const quants = repackGgml(type, bytes);
  const { block } = quantShape(ggmlQuantFormat(type));
  const matrix = await bench.matrix(columns, quantSource(quants, columns, ggmlQuantFormat(type)));
  const tokens = Array.from({ length: rows }, (_, i) => i);
  const blockTable = Array.from({ length: Math.ceil(rows / 16) }, (_, i) => i);
  const { buffer: step } = await bench.step([{ slot: 0, tokens, startPosition: 0, blockTable }]);
  const output = await bench.zeros(rows * columns);
  const embedding = await Embedding.create(bench.gpu, matrix, { step, lastIds: await bench.zeros(1), output });
  await bench.run((pass) => embedding.encode(pass, rows));
  const actual = await bench.read(output);
  const wrong = [...expected.keys()].filter((i) => {
    const scale = Math.abs(quants.scales[Math.floor(i / block)]!);
    const flushed = scale > 0 && scale < LEAST_NORMAL ? Math.abs(expected[i]!) : LEAST_NORMAL;
    return !(Math.abs(actual[i]! - expected[i]!) <= Math.max(1e-6 * Math.abs(expected[i]!), flushed));
  });
  expect(wrong).toEqual([]);
});
