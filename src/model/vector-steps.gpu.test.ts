import { expect, test } from 'vitest';
import { Gpu } from '../gpu/gpu.ts';
import { testDevice } from '../testing/device.ts';
import { RunnerLostError } from './runner-lost-error.ts';
import { VectorSteps } from './vector-steps.ts';

test('a step that is refused keeps nothing: its staging goes to the next ones, and errors are theirs', async () => {
  const device = await testDevice();
  const gpu = new Gpu(device);
  const source = await gpu.storage('vectors', 2 * 16);
  device.queue.writeBuffer(source, 0, Float32Array.of(3, 4, 9, 9, 0, 2, 9, 9));
  const steps = await VectorSteps.create(gpu, { source, stride: 4, dimension: 2, normalised: true, maxRows: 2 });
  for (let i = 0; i < 5; i++) {
    const refused = steps.run(1, () => {
      throw new Error(`refused ${i}`);
    });
    await expect(refused).rejects.toThrow(`refused ${i}`);
  }
  const vectors = await steps.run(2, () => {});
  expect(vectors).toEqual([Float32Array.of(3 / 5, 4 / 5), Float32Array.of(0, 1)]);
  await expect(device.popErrorScope()).rejects.toThrow();
  steps.end(new RunnerLostError('over'));
  await expect(steps.run(1, () => {})).rejects.toThrow('over');
  gpu.destroy();
});
