import { expect, test } from 'vitest';
import type { KernelNeeds } from '../gpu/kernel-needs.ts';
import { candidates } from '../gpu/linear-candidates.ts';
import { defaultChoice } from '../gpu/linear-choice.ts';
import { linearFeatures } from '../gpu/linear-features.ts';
import { linearUseName, linearUses } from '../gpu/linear-trial.ts';
import { testDevice } from '../testing/device.ts';
import { prepareKernels } from './prepare-kernels.ts';

const PRODUCT = { part: { tiles: 2, columns: 96, format: 'f32' }, form: { finish: 'store', normed: true } } as const;
const NEEDS: KernelNeeds = {
  products: [{ ...PRODUCT, uses: 1 }],
  attention: { heads: 4, kvHeads: 2, headSize: 8, kvFormat: 'f32' },
  embeddings: [{ format: 'f32', of: 'tokens with norm' }],
  vocabulary: 512,
  rows: ['rms-norm'],
};
/** Other tests try these. */
const PASSED = ['attention f32 threads', 'embedding f32', 'rms-norm', 'sampler'].map((name) => ({ name, ms: 0 }));

test('after three lost devices the plain path is taken, though another of its variants was what lost one', async () => {
  const device = await testDevice();
  const features = { ...linearFeatures(device), software: false };
  const { part, form } = PRODUCT;
  const plain = defaultChoice(part, form, false);
  const lost = candidates(part, form, features, 'exact')
    .flatMap((choice) => linearUses(part.format, form, choice))
    .map(linearUseName)
    .filter((name) => !linearUses(part.format, form, plain).map(linearUseName).includes(name))
    .map((name) => ({ name, why: 'the GPU device was lost', lost: true as const, ms: 0 }));
  expect(lost.length).toBeGreaterThan(1);
  // As a GPU's is.
  const info = { vendor: '', architecture: 'a-gpu', device: '', description: '', isFallbackAdapter: false };
  const gpu = new Proxy(device, {
    get: (target, name) => {
      if (name === 'adapterInfo') return info;
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const setup = { tune: 'auto', precision: 'exact', version: 'test', totalMs: 60_000 } as const;
  const results = [...PASSED, ...lost];
  const prepared = await prepareKernels(gpu, NEEDS, setup, { results, careful: true, plain: true });
  expect(prepared.choices.linear(part, form)).toEqual(plain);
});
