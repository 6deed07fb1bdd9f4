import { expect, test } from 'vitest';
import { forcedKernel } from './choice-name.ts';
import type { Precision } from './kernel-choices.ts';
import type { KernelNeeds } from './kernel-needs.ts';
import { checkForced, kernelOffers } from './kernel-offers.ts';
import { isFast } from './linear-variant.ts';

/** A device of an adapter with such features; what a GPU's subgroup matrices are like. */
function deviceOf(features: readonly string[], architecture = 'a-gpu'): GPUDevice {
  const subgroupMatrixConfigs = [{ componentType: 'f16', resultType: 'f32', M: 16, N: 16, K: 16 }];
  const adapterInfo = {
    ...{ architecture, description: '', isFallbackAdapter: false },
    ...{ subgroupMinSize: 32, subgroupMaxSize: 32, subgroupMatrixConfigs },
  };
  return { adapterInfo, features: new Set(features) } as unknown as GPUDevice;
}

const GPU_FEATURES = ['subgroups', 'shader-f16', 'chromium-experimental-subgroup-matrix'];
const QUANTISED: KernelNeeds = {
  products: [
    { part: { tiles: 9, columns: 512, format: 'q4-32-f16' }, form: { finish: 'gate', normed: true }, uses: 1 },
    { part: { tiles: 8, columns: 512, format: 'q4-32-f16' }, form: { finish: 'emit', normed: false }, uses: 1 },
  ],
  attention: { heads: 4, kvHeads: 2, headSize: 8, kvFormat: 'f32' },
  embeddings: [{ format: 'f32', of: 'tokens with norm' }],
  vocabulary: 512,
  rows: ['rms-norm'],
};
const DENSE: KernelNeeds = {
  ...QUANTISED,
  products: QUANTISED.products.map((need) => ({ ...need, part: { ...need.part, format: 'f32' } })),
};

function chosen(device: GPUDevice, needs: KernelNeeds, name: string, precision: Precision) {
  const forced = forcedKernel(name, precision);
  const offers = kernelOffers(device, precision, forced);
  checkForced(offers, needs, forced);
  return needs.products.map(({ part, form }) => offers.linear(part, form)[0]!);
}

test.each(['plain', 'quads', 'f16', 'matrix'])('%s can be asked for where a GPU has it', (path) => {
  const precision = path === 'f16' || path === 'matrix' ? 'fast' : 'exact';
  for (const choice of chosen(deviceOf(GPU_FEATURES), QUANTISED, path, precision)) {
    expect(choice.matmul.path).toBe(path);
    // Few columns are made of no fragments.
    if (path !== 'matrix') expect(choice.matvec.every((variant) => variant.path === path)).toBe(true);
  }
});

test('a CPU is offered no path to choose, and takes what is asked for', () => {
  const device = deviceOf(['subgroups', 'shader-f16'], 'swiftshader');
  for (const choice of chosen(device, QUANTISED, 'f16', 'fast')) expect(choice.matmul.path).toBe('f16');
  // Its own plain choice, not a GPU's.
  for (const choice of chosen(device, QUANTISED, 'plain', 'exact')) expect(choice.splits).toBe(1);
});

test('what is exact is made of nothing fast, whatever is asked for by name', () => {
  for (const name of ['f16', 'dot', 'matrix', 'f16-2x1-16x1x8-1', 'matrix-8x4-8x16x1-1-f16.f32.16x16x16.32']) {
    expect(() => forcedKernel(name, 'exact')).toThrow(/is of precision fast/);
  }
  for (const path of ['plain', 'quads']) {
    for (const { matvec, matmul } of chosen(deviceOf(GPU_FEATURES), QUANTISED, path, 'exact')) {
      expect([...matvec, matmul].some((variant) => isFast(variant.path))).toBe(false);
    }
  }
});

test.each([
  ['quads', deviceOf([]), QUANTISED, 'exact'],
  ['quads', deviceOf(GPU_FEATURES), DENSE, 'exact'],
  ['f16', deviceOf(['subgroups']), QUANTISED, 'fast'],
  ['matrix', deviceOf(['shader-f16']), QUANTISED, 'fast'],
  ['dot', deviceOf(GPU_FEATURES), QUANTISED, 'fast'],
  ['quads-8x4-64x1x1-4', deviceOf(GPU_FEATURES), DENSE, 'exact'],
] as const)('%s is refused where no product can be made of it', (name, device, needs, precision) => {
  expect(() => chosen(device, needs, name, precision)).toThrow(
    /can be of quads|can be of f16|can be of matrix|can be of dot/,
  );
});

test('tiles are refused for heads that are too large for them', () => {
  const attention = { ...QUANTISED.attention, headSize: 256 };
  expect(() => chosen(deviceOf([]), { ...QUANTISED, attention }, 'tiles', 'exact')).toThrow(/can be of tiles/);
  chosen(deviceOf([]), QUANTISED, 'tiles', 'exact');
});

test('sizes that no device compiles are refused by name, before anything is made of them', () => {
  for (const name of ['plain-8x100000-1x1x1-4', 'plain-64x64-1x1x1-4', 'plain-8x4-999999999999x1x1-4']) {
    expect(() => forcedKernel(name, 'exact')).toThrow(RangeError);
  }
});
