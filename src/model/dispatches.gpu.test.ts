import { expect, test, vi } from 'vitest';
import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';
import { testDevice } from '../testing/device.ts';
import { describeDecoder } from './describe-decoder.ts';
import { loadDecoder } from './load-decoder.ts';
import { convertCheckpoint } from './testing/convert-checkpoint.ts';
import { blocksFor, logitsRow } from './testing/generate.ts';
import { goldenDecoder } from './testing/golden-decoder.ts';
import { randomAdapter } from './testing/random-adapter.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';
import { tinyModel } from './testing/tiny-model.ts';

test('a decoded token takes six dispatches a layer, attention split, and six more; one submit, and no buffer', async () => {
  const device = await testDevice();
  const layers = describeDecoder(storiesConfig()).config.layers.length;
  const runner = await loadDecoder(device, await storiesCheckpoint(), storiesConfig(), {
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

test('rows with adapters take eight dispatches a layer more, and neither a buffer nor a kernel; steps without one take none more', async () => {
  const device = await testDevice();
  const config = storiesConfig();
  const { layers } = describeDecoder(config).config;
  const runner = await loadDecoder(device, await storiesCheckpoint(), config, {
    ...{ kvBlocks: 16, maxRows: 32, maxSequences: 2, adapters: { most: 1, maxRank: 4 } },
  });
  const step = (startPosition: number, adapter?: number) =>
    runner.step({
      sequences: [
        {
          ...{ slot: 0, tokens: startPosition === 0 ? [1, 2] : 'slot', startPosition, blockTable: [0] },
          ...(adapter === undefined ? {} : { adapter }),
        },
      ],
      logits: [logitsRow(startPosition === 0 ? 1 : 0, 0)],
    });
  await step(0);
  const dispatches = vi.spyOn(GPUComputePassEncoder.prototype, 'dispatchWorkgroups');
  const counted = async (...of: Parameters<typeof step>) => {
    dispatches.mockClear();
    await step(...of);
    return dispatches.mock.calls.length;
  };
  try {
    const before = await counted(2);
    await runner.loadAdapter(0, randomAdapter(1, config));
    const buffers = vi.spyOn(GPUDevice.prototype, 'createBuffer');
    const pipelines = vi.spyOn(GPUDevice.prototype, 'createComputePipelineAsync');
    expect(await counted(3)).toBe(before);
    expect(await counted(4, 0)).toBe(before + 8 * layers.length);
    expect(buffers).not.toHaveBeenCalled();
    expect(pipelines).not.toHaveBeenCalled();
  } finally {
    vi.restoreAllMocks();
    runner.destroy();
  }
});

/** Dispatches of a decoded token with few keys: attention isn't split. */
async function decodeDispatches(checkpoint: Checkpoint, config: ModelConfig): Promise<number> {
  const runner = await loadDecoder(await testDevice(), checkpoint, config, {
    ...{ kvBlocks: 16, maxRows: 32, maxSequences: 2 },
  });
  const blockTable = blocksFor(200);
  const moreTables = runner.limits.kvGroups.slice(1).map(() => blockTable);
  const tokens = Array.from({ length: 32 }, (_, i) => i + 3);
  await runner.step({
    sequences: [{ slot: 0, tokens, startPosition: 0, blockTable, moreTables }],
    logits: [logitsRow(31, 0)],
  });
  const dispatches = vi.spyOn(GPUComputePassEncoder.prototype, 'dispatchWorkgroups');
  try {
    await runner.step({
      sequences: [{ slot: 0, tokens: 'slot', startPosition: 32, blockTable, moreTables }],
      logits: [logitsRow(0, 0)],
    });
    return dispatches.mock.calls.length;
  } finally {
    vi.restoreAllMocks();
    runner.destroy();
  }
}

test('a layer of experts takes three dispatches more than a dense one', async () => {
  const { checkpoint, config } = tinyModel(3, { layers: 1, experts: 4 });
  const mixture = tinyModel(3, { layers: 2, experts: 4 });
  // The second layer is one of experts; with norms of q and k attention takes six.
  expect(await decodeDispatches(mixture.checkpoint, mixture.config)).toBe(
    (await decodeDispatches(checkpoint, config)) + 6 + 3,
  );
});

// The table of docs/kernels.md.
test.each([
  ['v of a format of its own: a product', /v_proj/, 1],
  ['k unlike q and v: two products', /k_proj/, 2],
  ['up unlike gate: a product and SiLU', /up_proj/, 2],
  ['k and up: all of these', /k_proj|up_proj/, 4],
  ['o and down: nothing', /o_proj|down_proj/, 0],
])('of a mixed file, a layer takes more: %s', async (_, other, more) => {
  const layers = 2;
  const { checkpoint, config } = tinyModel(3, { layers });
  const dense = await decodeDispatches(checkpoint, config);
  expect(dense).toBeLessThanOrEqual(5 * layers + 6);
  const mixed = await convertCheckpoint(checkpoint, 'bf16', (name) => other.test(name));
  expect(await decodeDispatches(mixed, config)).toBe(dense + more * layers);
});

// The same table's other families: beside Llama's five dispatches of a layer, and those before the layers.
test.each([
  ['granite', 0, 0],
  ['smollm3', 0, 0],
  ['qwen2', 1, 0],
  ['qwen3', 1, 0],
  ['phi3', 1, 0],
  ['gemma2', 2, 0],
  ['gemma3', 3, 0],
  ['olmo2', 3, 0],
  ['gpt2', 4, 1],
])('%s: a layer takes %i more, and what is before them %i', async (name, more, before) => {
  const { checkpoint, config } = await goldenDecoder(name);
  const { layers } = describeDecoder(config).config;
  const llama = tinyModel(3, { layers: 1, tiedHead: true });
  const others = (await decodeDispatches(llama.checkpoint, llama.config)) - 5;
  expect(await decodeDispatches(checkpoint, config)).toBe((5 + more) * layers.length + before + others);
});
