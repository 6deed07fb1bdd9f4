import { expect, test, vi } from 'vitest';
import { testDevice } from '../testing/device.ts';
import { loadDecoder } from './load-decoder.ts';
import type { StepBatch } from './runner.ts';
import { StepError } from './step-error.ts';
import { blocksFor, GREEDY, logitsRow, slotStart } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';

const PROMPT = [1, 403, 407, 261, 378];
const options = { kvBlocks: 16, maxRows: 32, maxSequences: 2 };
const load = async () => loadDecoder(await testDevice(), await storiesCheckpoint(), storiesConfig(), options);

/** Two sequences, the second one drawn at random and penalised: step `i`, the prompts' being 0. */
function batch(i: number, more: Partial<StepBatch> = {}): StepBatch {
  const at = PROMPT.length + i - 1;
  const sampling = { ...GREEDY, temperature: 1, topP: 0.9, seed: 7n };
  const last = i === 0 ? PROMPT.length - 1 : 0;
  return {
    sequences: [0, 1].map((slot) => ({
      slot,
      tokens: i === 0 ? PROMPT : ('slot' as const),
      startPosition: i === 0 ? 0 : at,
      blockTable: blocksFor(64, 4 * slot),
    })),
    logits: [
      logitsRow(last, 0, { outputPosition: i }),
      logitsRow(2 * last + 1, 1, { outputPosition: i, sampling, logprob: true }),
    ],
    starts: i === 0 ? [slotStart(0), slotStart(1, { frequencyPenalty: 0.5, presencePenalty: 0.5 })] : [],
    ...more,
  };
}

test('steps give the same ids and logprobs with their kernels timed before them', async () => {
  const runner = await load();
  try {
    const results = async (timed: boolean) => {
      const rows = [];
      for (const one of [batch(0), batch(1), batch(2), batch(3, { repeat: 3 })]) {
        if (timed) await runner.profile(one, { leastMs: 0.05 });
        rows.push(...(await runner.step(one)));
      }
      return rows;
    };
    const plain = await results(false);
    expect(new Set(plain.map(({ id }) => id)).size).toBeGreaterThan(3);
    expect(await results(true)).toEqual(plain);
  } finally {
    runner.destroy();
  }
});

test.each(['timestamps', 'wall'] as const)('every dispatch of a step is timed once, by %s', async (clock) => {
  const runner = await load();
  const dispatches = vi.spyOn(GPUComputePassEncoder.prototype, 'dispatchWorkgroups');
  try {
    await runner.step(batch(0));
    const { kernels, leftOut, clock: facts } = await runner.profile(batch(1), { clock, leastMs: 0.2 });
    const buffers = runner.allocatedBuffers;
    dispatches.mockClear();
    await runner.step(batch(1));
    expect(kernels.reduce((sum, { calls }) => sum + calls, 0)).toBe(dispatches.mock.calls.length);
    expect(leftOut).toEqual([]);
    expect(new Set(kernels.map(({ kernel }) => kernel)).size).toBe(kernels.length);
    for (const { kernel, ms, repeats } of kernels) {
      expect(ms, kernel).toBeGreaterThan(0);
      expect(repeats, kernel).toBeGreaterThan(0);
    }
    const products = kernels.filter(({ kernel }) => kernel.startsWith('linear'));
    expect(products.length).toBeGreaterThan(3);
    // Two columns of the gate's and up's 2 × 172 rows of 64.
    expect(products.find(({ kernel }) => kernel.includes('gate'))?.flops).toBe(2 * 2 * 344 * 64);
    const stamped = clock === 'timestamps' && (await testDevice()).features.has('timestamp-query');
    expect(facts.source).toBe(stamped ? 'timestamps' : 'wall');
    if (!stamped) expect(facts.quantumNs).toBeUndefined();
    else expect(facts.quantumNs).toBeGreaterThan(0);
    // Queries, copies and all are gone.
    expect(runner.allocatedBuffers).toBe(buffers);
    await runner.profile(batch(2), { clock, leastMs: 0.05, mostMs: 60 });
    expect(runner.allocatedBuffers).toBe(buffers);
  } finally {
    vi.restoreAllMocks();
    runner.destroy();
  }
});

test('kernels that no time is left for are named', async () => {
  const runner = await load();
  try {
    const { kernels, leftOut } = await runner.profile(batch(0), { mostMs: -1 });
    expect(kernels).toEqual([]);
    expect(leftOut.length).toBeGreaterThan(5);
  } finally {
    runner.destroy();
  }
});

test('nothing is timed beside a step, and no step runs beside what is timed', async () => {
  const runner = await load();
  try {
    const step = runner.step(batch(0));
    await expect(runner.profile(batch(1))).rejects.toThrow(StepError);
    await step;
    const profile = runner.profile(batch(1), { leastMs: 0.05 });
    await expect(runner.step(batch(1))).rejects.toThrow(StepError);
    await profile;
    await runner.step(batch(1));
  } finally {
    runner.destroy();
  }
});
