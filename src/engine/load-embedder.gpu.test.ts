import { expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { GOLDEN_SEQUENCES, goldenModel, largestDifference } from '../model/testing/golden-encoders.ts';
import { testGpu } from '../testing/device.ts';
import { readTestFile } from '../testing/read-file.ts';
import { type LoadedEmbedder, loadEmbedder } from './load-embedder.ts';
import type { ModelFiles } from './read-model.ts';

const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

/** A tiny model's files, and others. */
async function filesOf(name: string, others: Readonly<Record<string, unknown>> = {}): Promise<ModelFiles> {
  const files = new Map<string, Uint8Array>();
  for (const file of ['config.json', 'model.safetensors']) {
    files.set(file, await readTestFile(`src/testing/golden/tiny/${name}/${file}`));
  }
  for (const [file, value] of Object.entries(others)) files.set(file, new TextEncoder().encode(JSON.stringify(value)));
  return {
    names: [...files.keys()],
    open: (file) => (files.has(file) ? bytesSource(file, files.get(file)!) : undefined),
  };
}

async function load(files: ModelFiles, tune: 'off' | 'auto' = 'off', gpu?: GPU): Promise<LoadedEmbedder> {
  return loadEmbedder(gpu ?? (await testGpu()), {
    ...{ files, quantisation: 'none', budget: { kvBytes: 1 << 24, maxRunning: 8 } },
    kernels: { tune, precision: 'exact', version: 'test', totalMs: 60_000 },
  });
}

/** The tests' GPU, whose devices `lose` loses. */
async function losable(): Promise<{ gpu: GPU; lose: () => void }> {
  const inner = await testGpu();
  const devices: GPUDevice[] = [];
  const requestAdapter = async (options?: GPURequestAdapterOptions) => {
    const adapter = (await inner.requestAdapter(options))!;
    const requestDevice = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await requestDevice(descriptor);
      devices.push(device);
      return device;
    };
    return adapter;
  };
  const gpu = { requestAdapter, wgslLanguageFeatures: inner.wgslLanguageFeatures } as GPU;
  const lose = () => {
    for (const device of devices) device.destroy();
  };
  return { gpu, lose };
}

const MODULES = ['Transformer', 'Pooling', 'Normalize'].map((name, i) => ({
  ...{ idx: i, name: String(i), type: `sentence_transformers.models.${name}`, path: i === 0 ? '' : `${i}_${name}` },
}));

const POOLED = {
  'modules.json': MODULES,
  '1_Pooling/config.json': { word_embedding_dimension: 48, pooling_mode_mean_tokens: true },
  'sentence_bert_config.json': { max_seq_length: 20 },
};

// Without the files, as SGLang pools.
test.each([['mean', 20, POOLED] as const, ...(long ? [['cls', 64, {}] as const] : [])])(
  'vectors are %s of up to %i ids, by the files of sentence-transformers or without, and a lost device is told',
  async (tensor, contextLength, others) => {
    const model = await goldenModel('bert');
    const sequences = await Promise.all(GOLDEN_SEQUENCES.map((index) => model.sequence(index)));
    const { gpu, lose } = await losable();
    const loaded = await load(await filesOf('bert', others), 'off', gpu);
    const { embedder } = loaded;
    expect(embedder).toMatchObject({ kind: 'embedding', dimension: 48, labels: undefined });
    expect(loaded).toMatchObject({ layers: 3, contextLength });
    const settled = await Promise.allSettled(sequences.map((one, i) => embedder.embed({ id: `${i}`, ...one })));
    for (const [i, result] of settled.entries()) {
      if (sequences[i]!.ids.length > contextLength) {
        expect(result).toMatchObject({ status: 'rejected', reason: { code: 'invalid_argument' } });
        continue;
      }
      if (result.status === 'rejected') throw result.reason;
      expect(largestDifference(result.value.values, (await model.golden(`${tensor}_${i}`))!)).toBeLessThan(2e-3);
    }
    expect(loaded.gpuBuffers()).toBeGreaterThan(0);
    expect(embedder.load()).toMatchObject({ running: 0, waiting: 0, requestsTaken: tensor === 'mean' ? 2 : 3 });
    const result = embedder.embed({ id: 'late', ids: [0, 5, 2] });
    lose();
    await expect(result).rejects.toMatchObject({ code: 'unavailable' });
    expect(await loaded.lost).toMatch(/./);
    loaded.destroy();
  },
);

test.skipIf(!long)('a decoder is pooled by its last token, and not otherwise', async () => {
  const pooled = (kind: string) => ({
    'modules.json': MODULES,
    '1_Pooling/config.json': { word_embedding_dimension: 64, [`pooling_mode_${kind}`]: true },
  });
  await expect(load(await filesOf('qwen3', pooled('mean_tokens')))).rejects.toThrow(/pooled by mean/);
  const model = await goldenModel('qwen3');
  const [ids] = await model.rows('input_ids', 48);
  const loaded = await load(await filesOf('qwen3', pooled('lasttoken')));
  const { values } = await loaded.embedder.embed({ id: 'a', ids: ids! });
  expect(largestDifference(values, (await model.golden('pooled_last'))!.slice(0, 64))).toBeLessThan(2e-3);
  loaded.destroy();
});

test.skipIf(!long)("every kernel of an encoder's is tried before it is used", { timeout: 120_000 }, async () => {
  const loaded = await load(await filesOf('bert-classifier'), 'auto');
  expect(loaded.kernels).toMatchObject({ from: 'tested', failed: [], untested: 0 });
  expect(loaded.kernels.passed).toBeGreaterThan(6);
  loaded.destroy();
});
