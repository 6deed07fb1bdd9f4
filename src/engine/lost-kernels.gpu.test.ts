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

/** The tests' GPU, each of whose devices compiles what `change` makes of a shader. */
async function gpuOf(
  change: (shader: GPUShaderModuleDescriptor, device: GPUDevice) => GPUShaderModuleDescriptor,
): Promise<GPU> {
  const inner = await testGpu();
  const requestAdapter = async (options?: GPURequestAdapterOptions) => {
    const adapter = (await inner.requestAdapter(options))!;
    const requestDevice = adapter.requestDevice.bind(adapter);
    adapter.requestDevice = async (descriptor) => {
      const device = await requestDevice(descriptor);
      const create = device.createShaderModule.bind(device);
      device.createShaderModule = (shader) => create(change(shader, device));
      return device;
    };
    return adapter;
  };
  return { requestAdapter, wgslLanguageFeatures: inner.wgslLanguageFeatures } as GPU;
}

/** The bundled model, on q8. */
async function load(gpu: GPU, tune: 'auto' | 'off', store?: TunerStore) {
  return loadEngine(gpu, {
    files: await stories(),
    quantisation: 'q8',
    budget: { kvBytes: 1 << 20, maxRunning: 2 },
    startGrammarWorker: () => {
      throw new Error('no constraint was asked for');
    },
    onEvents: () => {},
    kernels: { tune, precision: 'exact', version: 'test', store, totalMs: 120_000 },
  });
}

// Several loads of a model, each compiled anew.
test.runIf(import.meta.env.SHOAL_LONG === '1' && deviceProfile() === 'full')(
  'a variant by which the device is lost is found, told, and never tried again; the model is served without it',
  async () => {
    let losses = 0;
    const gpu = await gpuOf((shader, device) => {
      if (/^linear .*quads-8x2-/.test(shader.label ?? '')) {
        losses++;
        device.destroy();
      }
      return shader;
    });
    const store = memoryStore(new Map());
    const first = await load(gpu, 'auto', store);
    expect(first.kernels.from).toBe('tested');
    expect(first.kernels.failed.map(({ name }) => name)).toEqual([expect.stringMatching(/^linear .* quads-8x2-/)]);
    expect(first.kernels.failed[0]!.why).toMatch(/the GPU device was lost/);
    // Once by all kernels at once, then by that one alone, whose others are not tried any more.
    const lost = losses;
    expect(lost).toBe(2);
    first.destroy();
    const second = await load(gpu, 'auto', store);
    expect(second.kernels).toEqual({ ...first.kernels, from: 'kept' });
    expect(losses).toBe(lost);
    second.destroy();
  },
  180_000,
);

test.runIf(import.meta.env.SHOAL_LONG === '1')(
  'a kernel that others stand in for, and that does not compile, is told; all is served without it',
  async () => {
    const gpu = await gpuOf((shader) =>
      shader.label?.startsWith('attention-parts') ? { ...shader, code: 'no WGSL' } : shader,
    );
    const loaded = await load(gpu, 'off');
    expect(await loaded.refused).toEqual([
      { name: expect.stringMatching(/^attention-parts/), why: expect.stringContaining('unexpected token') },
    ]);
    expect(await Promise.race([loaded.lost, Promise.resolve('alive')])).toBe('alive');
    loaded.destroy();
  },
  60_000,
);
