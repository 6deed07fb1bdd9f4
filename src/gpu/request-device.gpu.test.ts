import { expect, test } from 'vitest';
import { deviceProfile, testDevice, testGpu } from '../testing/device.ts';
import { deviceLanguage } from './request-device.ts';

const WANTED = ['subgroups', 'shader-f16', 'timestamp-query', 'chromium-experimental-subgroup-matrix'];

test('a device has what its adapter offers of what kernels and profiler can use, and no other feature', async () => {
  const adapter = await (await testGpu()).requestAdapter();
  const device = await testDevice();
  const full = deviceProfile() === 'full';
  const offered = WANTED.filter((feature) => full && adapter!.features.has(feature as GPUFeatureName));
  expect([...device.features].filter((name) => name !== 'core-features-and-limits').sort()).toEqual(offered.sort());
  expect([...deviceLanguage(device)].length > 0).toBe(full);
});
