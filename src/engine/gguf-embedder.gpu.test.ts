import { expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { writeGgufEncoder } from '../checkpoint/testing/write-gguf-encoder.ts';
import { writeGgufModel } from '../checkpoint/testing/write-gguf-model.ts';
import { goldenModel, largestDifference } from '../model/testing/golden-encoders.ts';
import { testGpu } from '../testing/device.ts';
import { loadEmbedder } from './load-embedder.ts';
import { type ModelFiles, readTask } from './read-model.ts';

const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

const TOKENS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]'];

async function load(file: Uint8Array) {
  const files: ModelFiles = { names: ['m.gguf'], open: (name) => bytesSource(name, file) };
  expect(await readTask(files)).toBe('embed');
  return loadEmbedder(await testGpu(), {
    ...{ files, quantisation: 'none', budget: { kvBytes: 1 << 24, maxRunning: 8 } },
    kernels: { tune: 'off', precision: 'exact', version: 'test', totalMs: 60_000 },
  });
}

test.skipIf(!long).each([[1, 'mean'] as const, [2, 'cls'] as const])(
  "a GGUF encoder's vectors are pooled as its pooling_type %i says, %s",
  async (type, pooling) => {
    const model = await goldenModel('bert');
    const how = { tokens: TOKENS, metadata: { pooling_type: type } };
    const { embedder, destroy } = await load(await writeGgufEncoder(model.checkpoint, model.config.raw, how));
    for (const index of [0, 1]) {
      const { values } = await embedder.embed({ id: `${index}`, ...(await model.sequence(index)) });
      expect(largestDifference(values, (await model.golden(`${pooling}_${index}`))!)).toBeLessThan(2e-3);
    }
    destroy();
  },
);

test.skipIf(!long)("a GGUF decoder's are its last token's where it says so, as Qwen3-Embedding's does", async () => {
  const model = await goldenModel('qwen3');
  const how = { architecture: 'qwen3', metadata: { pooling_type: 3 } };
  const { embedder, destroy } = await load(await writeGgufModel(model.checkpoint, model.config.raw, how));
  const [ids] = await model.rows('input_ids', 48);
  const { values } = await embedder.embed({ id: 'a', ids: ids! });
  expect(largestDifference(values, (await model.golden('pooled_last'))!.slice(0, 64))).toBeLessThan(2e-3);
  destroy();
});
