import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ActivateRows } from './activate-rows.ts';
import { AddNormed } from './add-normed.ts';
import { AdjustLogits } from './adjust-logits.ts';
import { attentionChoices } from './attention-choice.ts';
import { compileAttention, compileMerge } from './attention-kernels.ts';
import { CombineExperts } from './combine-experts.ts';
import { compileEmbedding } from './embedding.ts';
import { EncoderEmbedding } from './encoder-embedding.ts';
import { Gpu } from './gpu.ts';
import { KvCopy } from './kv-copy.ts';
import { LayerNorm } from './layer-norm.ts';
import { candidates } from './linear-candidates.ts';
import { defaultChoice } from './linear-choice.ts';
import type { LinearFeatures } from './linear-features.ts';
import { LinearKernel } from './linear-kernel.ts';
import { type FragmentShape, type LinearForm, linearVariantOf, variantName } from './linear-variant.ts';
import { LowRankUpdate } from './low-rank-update.ts';
import { NormInput } from './norm-input.ts';
import { Pool } from './pool.ts';
import { QUANT_FORMATS } from './quant-format.ts';
import { RmsNorm } from './rms-norm.ts';
import { Rope } from './rope.ts';
import { RouteRows } from './route-rows.ts';
import { compileBest, compileBuckets, compileDraws } from './sampler-kernels.ts';
import { SegmentEntries } from './segment-entries.ts';
import { compileSegmented, segmentedChoice } from './segmented-kernel.ts';
import { StepAdvance } from './step-advance.ts';
import { isQuantFormat, type MatrixFormat } from './weight-format.ts';

const FORMATS: readonly MatrixFormat[] = ['f32', 'f16', 'bf16', ...QUANT_FORMATS];
const FORMS: readonly LinearForm[] = [
  { finish: 'store', normed: false },
  { finish: 'emit', normed: false },
  { finish: 'rotate', normed: true },
];
/** What adapters offer: NVIDIA and AMD, Intel, Apple. */
const FRAGMENTS: readonly FragmentShape[] = [
  { component: 'f16', result: 'f32', m: 16, n: 16, k: 16, subgroup: 32 },
  { component: 'f16', result: 'f32', m: 8, n: 16, k: 16, subgroup: 16 },
  { component: 'f32', result: 'f32', m: 8, n: 8, k: 8, subgroup: 32 },
];

// An optional dependency.
const webgpu = await import('webgpu').catch(() => undefined);

// Dawn's null adapter compiles WGSL and runs nothing: it has every feature, wherever this runs.
// Kept: a device dies with its GPU object.
let dawn: GPU;
let device: GPUDevice;
let gpu: Gpu;
/** What was compiled. */
const codes: string[] = [];
beforeAll(async () => {
  if (!webgpu) return;
  Object.assign(globalThis, webgpu.globals);
  dawn = webgpu.create(['backend=null', 'enable-dawn-features=allow_unsafe_apis']);
  const adapter = await dawn.requestAdapter();
  const requiredFeatures = ['subgroups', 'shader-f16', 'chromium-experimental-subgroup-matrix'] as GPUFeatureName[];
  device = await adapter!.requestDevice({ requiredFeatures });
  gpu = new Gpu(device);
  const create = device.createShaderModule.bind(device);
  vi.spyOn(device, 'createShaderModule').mockImplementation((descriptor) => {
    codes.push(descriptor.code);
    return create(descriptor);
  });
});
afterAll(() => {
  gpu?.destroy();
  device?.destroy();
});

/** Features of a device that has all, or all but some. */
function features(fragments: readonly FragmentShape[], without?: string): LinearFeatures {
  return { has: (feature) => feature !== without, packedDot: true, software: false, fragments };
}

test.skipIf(!webgpu)('every variant of a product compiles, of each path', async () => {
  const names = new Set<string>();
  for (const format of FORMATS) {
    for (const form of FORMS) {
      const part = { tiles: 8, columns: 1024, format };
      const choices = [
        ...FRAGMENTS.flatMap((fragment) => candidates(part, form, features([fragment]), 'fast')),
        defaultChoice(part, form, false),
      ];
      const variants = choices.flatMap(({ matvec, matmul }) => [...matvec, matmul]);
      // K over threads where each four of them share what they load.
      if (isQuantFormat(format)) variants.push(linearVariantOf('quads-8x1-8x1x8-4'));
      const own = new Map(variants.map((variant) => [variantName(variant), variant]));
      await Promise.all([...own.values()].map((variant) => LinearKernel.compile(gpu, format, variant, form)));
      for (const name of own.keys()) names.add(`${format} ${name}`);
    }
  }
  for (const path of ['plain', 'quads', 'f16', 'dot', 'matrix']) {
    expect([...names].filter((name) => name.includes(` ${path}-`)).length).toBeGreaterThan(8);
  }
  expect(names.size).toBeGreaterThan(200);
  // With the features, not what stands in for them.
  const native = codes.filter((code) => code.includes('enable chromium_experimental_subgroup_matrix;'));
  expect(native.length).toBeGreaterThanOrEqual(3 * FORMATS.length);
  expect(codes.filter((code) => code.includes('alias Half = f16;')).length).toBeGreaterThan(3 * FORMATS.length);
  expect(native.every((code) => !code.includes('fragmentMultiply'))).toBe(true);
});

/** The same device, as one whose threads run on a CPU. */
function softwareOf(of: GPUDevice): GPUDevice {
  const info = { vendor: 'google', architecture: 'swiftshader', device: '', description: '', isFallbackAdapter: true };
  return new Proxy(of, {
    get: (target, name) => (name === 'adapterInfo' ? info : Reflect.get(target, name, target)),
  });
}

test.skipIf(!webgpu)('every other kernel compiles, and no shader is left out', async () => {
  const buffer = await gpu.storage('any', 1 << 16);
  // Whatever a kernel binds.
  const buffers = new Proxy({}, { get: () => buffer }) as never;
  for (const format of FORMATS) {
    const part = { tiles: 8, columns: 1024, format };
    // As GPUs have it, threads along K, and as SwiftShader.
    const segmented = [segmentedChoice(device, part), segmentedChoice(softwareOf(device), part)];
    for (const { single, grouped } of segmented) {
      await Promise.all([single, grouped].map((variant) => compileSegmented(gpu, format, variant)));
    }
    for (const of of ['tokens with norm', 'tokens', 'positions'] as const) await compileEmbedding(gpu, format, of);
    await EncoderEmbedding.compile(gpu, format);
  }
  for (const headSize of [64, 128]) {
    const shape = { heads: 8, kvHeads: 2, headSize, kvFormat: 'f32' } as const;
    for (const choice of attentionChoices(shape)) {
      for (const of of ['whole', 'parts'] as const) {
        for (const more of [{}, { cap: 30 }]) await compileAttention(gpu, { ...shape, ...more }, of, choice);
      }
    }
    for (const of of [undefined, 'head', 'row'] as const) {
      await Rope.create(gpu, { ...shape, qkNorm: of && { of, epsilon: 1e-6 } }, buffers);
    }
  }
  for (const vocabulary of [128, 127]) {
    for (const small of [true, false]) {
      for (const threads of [4, 64]) {
        if (!small) await compileBest(gpu, { vocabulary, small, threads });
        await compileDraws(gpu, { vocabulary, small, threads });
        await compileBuckets(gpu, { vocabulary, small, threads });
      }
    }
    const shape = { vocabulary, maxCounted: 8, maxBiases: 8, tileRows: 2, maxLogitsRows: 2 };
    await AdjustLogits.create(gpu, shape, buffers);
  }
  await Promise.all([
    compileMerge(gpu),
    RmsNorm.create(gpu, { columns: 64, epsilon: 1e-5, of: 'rows' }, buffers),
    NormInput.create(gpu, 64, buffers),
    LowRankUpdate.compile(gpu),
    ActivateRows.create(gpu, { columns: 64, activation: 'silu', gated: true }, buffers),
    AddNormed.create(gpu, { columns: 64, epsilon: 1e-5, scale: 1 }, buffers),
    Pool.compile(gpu),
    LayerNorm.create(gpu, { columns: 64, epsilon: 1e-5, of: 'rows' }, buffers),
    KvCopy.create(gpu, 4096, buffers),
    SegmentEntries.create(gpu, { segments: 128, entriesARow: 8, maxRows: 4 }, buffer),
    RouteRows.create(gpu, { experts: 128, chosen: 8, normalised: true, stride: 128 }, buffers),
    CombineExperts.create(gpu, { columns: 64, chosen: 8 }, { kind: 'store' }, buffers),
    StepAdvance.create(gpu, buffer),
  ]);
  const folder = new URL('../../shaders/', import.meta.url);
  const missing = readdirSync(folder).filter((name) => {
    const [first] = readFileSync(new URL(name, folder), 'utf8').split('\n');
    return !codes.some((code) => code.includes(first!.trim()));
  });
  expect(missing).toEqual([]);
});
