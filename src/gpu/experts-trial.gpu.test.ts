import { afterAll, beforeAll, expect, test } from 'vitest';
import { testDevice } from '../testing/device.ts';
import { DeviceWatch } from './device-watch.ts';
import { expertTrials } from './experts-trial.ts';
import { KernelTrial } from './kernel-trial.ts';

let watch: DeviceWatch;
beforeAll(async () => {
  watch = new DeviceWatch(await testDevice());
});
afterAll(() => watch.check());

test('each kernel of a mixture passes on this adapter, once a shape', async () => {
  const part = { tiles: 4, columns: 64, format: 'f32' } as const;
  const trials = expertTrials({
    routes: [{ experts: 8, chosen: 2 }],
    parts: [part, { ...part, columns: 96 }, { ...part, format: 'q8-32-f16' }],
    wider: [{ ...part, format: 'q8-32-f32' }],
  });
  expect(trials.map(({ name }) => name)).toEqual([
    'segmented-linear f32 4x64',
    'segmented-linear f32 4x96',
    'segmented-linear q8-32-f16 4x64',
    'segmented-linear q8-32-f32 4x64',
    'route-rows 2 of 8',
    'combine-experts',
  ]);
  for (const { run } of trials) {
    const trial = new KernelTrial(watch, 60_000);
    await run(trial);
    trial.close();
  }
});
