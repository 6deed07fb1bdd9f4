import { expect, test } from 'vitest';
import { bytesSource } from '../checkpoint/byte-source.ts';
import { deviceProfile, testGpu } from '../testing/device.ts';
import { readTestFile } from '../testing/read-file.ts';
import { loadEngine } from './load-engine.ts';
import type { ModelFiles } from './read-model.ts';
import type { TunerStore } from './tuner-store.ts';

const NAMES = ['config.json', 'generation_config.json', 'tokenizer.json', 'model.safetensors'];

async function stories(): Promise<ModelFiles> {
  const files = await Promise.all(NAMES.map((name) => readTestFile(`models/stories260K/${name}`)));
  return { names: NAMES, open: (name) => bytesSource(name, files[NAMES.indexOf(name)]!) };
}

function memoryStore(texts: Map<string, string>): TunerStore {
  return {
    get: async (key) => texts.get(key),
    set: async (key, text) => void texts.set(key, text),
    delete: async (key) => void texts.delete(key),
  };
}

/** The tests' GPU, whose devices are lost by compiling kernels of such names; how many were. */
async function fragileGpu(fatal: RegExp): Promise<{ gpu: GPU; losses: () => number }> {
  const inner = await testGpu();
  let losses = 0;
  const requestAdapter = async (options?: GPURequestAdapterOptions) => {
    const adapter = (await inner.requestAdapter(options))!;
    const requestDevice = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await requestDevice(descriptor);
      const create = device.createShaderModule.bind(device);
      device.createShaderModule = (shader) => {
        if (fatal.test(shader.label ?? '')) {
          losses++;
          device.destroy();
        }
        return create(shader);
      };
      return device;
    };
    return adapter;
  };
  return { gpu: { requestAdapter, wgslLanguageFeatures: inner.wgslLanguageFeatures } as GPU, losses: () => losses };
}

// Several loads of a model, each compiled anew.
test.runIf(import.meta.env.SHOAL_LONG === '1' && deviceProfile() === 'full')(
  'a variant by which the device is lost is found, told, and never tried again; the model is served without it',
  async () => {
    const { gpu, losses } = await fragileGpu(/^linear .*quads-8x2-/);
    const texts = new Map<string, string>();
    const load = async () =>
      loadEngine(gpu, {
        files: await stories(),
        quantisation: 'q8',
        budget: { kvBytes: 1 << 20, maxRunning: 2 },
        startGrammarWorker: () => {
          throw new Error('no constraint was asked for');
        },
        onEvents: () => {},
        kernels: { tune: 'auto', precision: 'exact', version: 'test', store: memoryStore(texts) },
      });
    const first = await load();
    expect(first.kernels.from).toBe('tested');
    expect(first.kernels.failed.map(({ name }) => name)).toEqual([expect.stringMatching(/^linear .* quads-8x2-/)]);
    expect(first.kernels.failed[0]!.why).toMatch(/the GPU device was lost/);
    // Once by all kernels at once, then by that one alone, whose others are not tried any more.
    const lost = losses();
    expect(lost).toBe(2);
    first.destroy();
    const second = await load();
    expect(second.kernels).toEqual({ ...first.kernels, from: 'kept' });
    expect(losses()).toBe(lost);
    second.destroy();
  },
  180_000,
);
