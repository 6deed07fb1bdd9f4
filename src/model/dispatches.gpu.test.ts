import { expect, test, vi } from 'vitest';
import { testDevice } from '../testing/device.ts';
import { llamaConfig } from './llama-config.ts';
import { loadLlama } from './load-llama.ts';
import { blocksFor, logitsRow } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';

test('a decoded token takes six dispatches a layer, attention split, and six more; one submit, and no buffer', async () => {
  const device = await testDevice();
  const { layers } = llamaConfig(storiesConfig());
  const runner = await loadLlama(device, await storiesCheckpoint(), storiesConfig(), {
    kvBlocks: 16,
    maxRows: 32,
    maxSequences: 2,
  });
  const blockTable = blocksFor(200);
  const tokens = Array.from({ length: 32 }, (_, i) => i + 3);
  await runner.step({ sequences: [{ slot: 0, tokens, startPosition: 0, blockTable }], logits: [logitsRow(31, 0)] });
  const dispatches = vi.spyOn(GPUComputePassEncoder.prototype, 'dispatchWorkgroups');
  const submits = vi.spyOn(GPUQueue.prototype, 'submit');
  const buffers = vi.spyOn(GPUDevice.prototype, 'createBuffer');
  // What the profiler makes, which costs nothing while nobody asks for it.
  const queries = vi.spyOn(GPUDevice.prototype, 'createQuerySet');
  const passes = vi.spyOn(GPUCommandEncoder.prototype, 'beginComputePass');
  try {
    await runner.step({
      sequences: [{ slot: 0, tokens: 'slot', startPosition: 32, blockTable }],
      logits: [logitsRow(0, 0)],
    });
    expect(dispatches.mock.calls.length).toBeLessThanOrEqual(6 * layers + 6);
    expect(submits).toHaveBeenCalledOnce();
    expect(buffers).not.toHaveBeenCalled();
    expect(queries).not.toHaveBeenCalled();
    expect(passes).toHaveBeenCalledOnce();
  } finally {
    vi.restoreAllMocks();
    runner.destroy();
  }
});
