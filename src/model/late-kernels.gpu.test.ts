import { expect, test, vi } from 'vitest';
import { newTestDevice, testDevice } from '../testing/device.ts';
import { describeDecoder } from './describe-decoder.ts';
import { loadDecoder } from './load-decoder.ts';
import { blocksFor, logitsRow } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';

/** On a device of its own all is compiled anew, which takes seconds. */
const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

test('what is compiled late changes no bit, makes no buffer, and is used from then on', async () => {
  const device = await (long ? newTestDevice() : testDevice());
  const layers = describeDecoder(storiesConfig()).config.layers.length;
  const options = { kvBlocks: 16, maxRows: 80, maxSequences: 3, late: true };
  const runner = await loadDecoder(device, await storiesCheckpoint(), storiesConfig(), options);
  const compiles = vi.spyOn(GPUDevice.prototype, 'createComputePipelineAsync');
  const buffers = vi.spyOn(GPUDevice.prototype, 'createBuffer');
  const dispatches = vi.spyOn(GPUComputePassEncoder.prototype, 'dispatchWorkgroups');
  try {
    const blockTable = blocksFor(100);
    const tokens = Array.from({ length: 95 }, (_, i) => i + 3);
    const logits = async (from: number, to: number) => {
      dispatches.mockClear();
      const rows = tokens.slice(from, to);
      const batch = {
        sequences: [{ slot: 0, tokens: rows, startPosition: from, blockTable }],
        logits: rows.map((_, row) => logitsRow(row, 0)),
      };
      const numbers = (await runner.logits(batch)).map((row) => [...new Uint32Array(row.buffer)]);
      return { numbers, dispatches: dispatches.mock.calls.length };
    };
    await logits(0, 64);
    const ranges = [
      [64, 65],
      [65, 67],
      [67, 70],
      [70, 75],
      [75, 95],
    ] as const;
    const before = [];
    for (const [from, to] of ranges) before.push(await logits(from, to));
    const made = buffers.mock.calls.length;
    compiles.mockClear();
    await runner.compileLate();
    if (long) expect(compiles).toHaveBeenCalled();
    expect(buffers.mock.calls.length).toBe(made);
    compiles.mockClear();
    for (const [i, [from, to]] of ranges.entries()) {
      const after = await logits(from, to);
      expect(after.numbers).toEqual(before[i]!.numbers);
      // Up to four rows of a sequence are split: one dispatch more a layer.
      expect(after.dispatches - before[i]!.dispatches).toBe(to - from <= 4 ? layers : 0);
    }
    await runner.compileLate();
    expect(compiles).not.toHaveBeenCalled();
  } finally {
    for (const spy of [compiles, buffers, dispatches]) spy.mockRestore();
    runner.destroy();
    if (long) device.destroy();
  }
});
