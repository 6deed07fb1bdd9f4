import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bits, largestError } from '../gpu/testing/kernel-bench.ts';
import { Random } from '../gpu/testing/random.ts';
import { newTestDevice, testDevice } from '../testing/device.ts';
import { CpuRunner } from './cpu-runner.ts';
import type { GpuRunner } from './gpu-runner.ts';
import { loadDecoder } from './load-decoder.ts';
import type { SampledRow, StepSequence } from './runner.ts';
import { RunnerLostError } from './runner-lost-error.ts';
import { convertCheckpoint } from './testing/convert-checkpoint.ts';
import { blocksFor, GREEDY, generate, logitsRow } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';
import { type TinyShape, tinyModel } from './testing/tiny-model.ts';

const OPTIONS = { kvBlocks: 64, maxRows: 256, maxSequences: 8 };
let runner: GpuRunner;
beforeAll(async () => {
  runner = await loadDecoder(await testDevice(), await storiesCheckpoint(), storiesConfig(), OPTIONS);
});
afterAll(() => runner.destroy());

const randomTokens = (seed: number, count: number) => {
  const random = new Random(seed);
  return Array.from({ length: count }, () => random.integer(3, 511));
};

/** Rows of a sequence whose tokens are ids. */
const rowCount = ({ tokens }: Pick<StepSequence, 'tokens'>) =>
  tokens === 'slot' ? 1 : (tokens as ArrayLike<number>).length;

describe('the same bits', () => {
  const length = 150;
  const tokens = randomTokens(1, length);
  let whole: Float32Array<ArrayBuffer>[];

  beforeAll(async () => {
    whole = await logitsOf({ slot: 0, tokens, startPosition: 0, blockTable: blocksFor(length) });
  });

  /** Logits of all rows of one sequence, alone or before `others`; at most 64 rows have logits at a time. */
  async function logitsOf(sequence: StepSequence, others: readonly StepSequence[] = [], from = 0) {
    const count = rowCount(sequence);
    const all: Float32Array<ArrayBuffer>[] = [];
    for (let first = 0; first < count; first += 64) {
      const rows = Array.from({ length: Math.min(64, count - first) }, (_, i) =>
        logitsRow(from + first + i, sequence.slot),
      );
      const sequences = from > 0 ? [...others, sequence] : [sequence, ...others];
      all.push(...(await runner.logits({ sequences, logits: rows })));
    }
    return all;
  }

  test.each([[[150]], [[1, 149]], [[63, 1, 1, 85]], [[16, 16, 16, 16, 16, 70]], [[100, 9, 8, 7, 26]]])(
    'in chunks of %j',
    async (chunks) => {
      const blockTable = blocksFor(length, 20).reverse();
      let position = 0;
      for (const chunk of chunks) {
        const part = tokens.slice(position, position + chunk);
        const logits = await logitsOf({ slot: 3, tokens: part, startPosition: position, blockTable });
        logits.forEach((row, i) => {
          expect(bits(row)).toEqual(bits(whole[position + i]!));
        });
        position += chunk;
      }
    },
  );

  test('row by row, alone and among other sequences', async () => {
    const blockTable = blocksFor(length, 20);
    const other = randomTokens(2, 40);
    const fill = (from: number, to: number) =>
      runner.step({
        sequences: [{ slot: 1, tokens: tokens.slice(from, to), startPosition: from, blockTable }],
        logits: [],
      });
    // Around the edges of attention's splits.
    for (const [from, to, filled] of [
      [60, 70, 0],
      [124, 132, 70],
    ] as const) {
      await fill(filled, from);
      for (let position = from; position < to; position++) {
        const row: StepSequence = { slot: 1, tokens: [tokens[position]!], startPosition: position, blockTable };
        // Company that changes: none, a prefill before, a decode row and a prefill after.
        const prefill: StepSequence = { slot: 2, tokens: other, startPosition: 0, blockTable: blocksFor(40, 40) };
        const decode: StepSequence = { slot: 4, tokens: [9], startPosition: 0, blockTable: [50] };
        const company = [[], [prefill], [decode, prefill]][position % 3]!;
        const [logits] = await logitsOf(row, company, position % 3 === 1 ? 40 : 0);
        expect(bits(logits!)).toEqual(bits(whole[position]!));
      }
    }
  });

  test('with weights and KV in small bindings', async () => {
    const small = await loadDecoder(await testDevice(), await storiesCheckpoint(), storiesConfig(), {
      ...OPTIONS,
      kvBlocks: 10,
      bindingLimit: 45_056,
    });
    const [logits] = await small.logits({
      sequences: [{ slot: 0, tokens, startPosition: 0, blockTable: blocksFor(length) }],
      logits: [logitsRow(149, 0)],
    });
    expect(bits(logits!)).toEqual(bits(whole[149]!));
    small.destroy();
  });
});

test('concurrent sequences give what each gives alone', async () => {
  const prompts = [[1], [1, 403, 407, 261, 378], randomTokens(4, 70)];
  const sampling = { ...GREEDY, temperature: 0.8, topP: 0.95, seed: 11n };
  const more = { sampling, logprob: true, topLogprobs: 2 };
  const count = 12;
  const alone: SampledRow[][] = [];
  for (const prompt of prompts) alone.push(await generate(runner, prompt, count, more));
  const together: SampledRow[][] = prompts.map(() => []);
  for (let i = 0; i < count; i++) {
    let row = -1;
    const sequences = prompts.map((prompt, slot): StepSequence => {
      const blockTable = blocksFor(prompt.length + count, slot * 8);
      return i === 0
        ? { slot, tokens: prompt, startPosition: 0, blockTable }
        : { slot, tokens: 'slot', startPosition: prompt.length + i - 1, blockTable };
    });
    const logits = sequences.map(({ tokens, slot }) => {
      row += rowCount({ tokens });
      return logitsRow(row, slot, { ...more, outputPosition: i });
    });
    const sampled = await runner.step({ sequences, logits });
    sampled.forEach((result, slot) => {
      together[slot]!.push(result);
    });
  }
  expect(together).toEqual(alone);
});

describe('agrees with the CPU runner', () => {
  test.each<[string, TinyShape]>([
    ['one layer', {}],
    ['a tied head', { tiedHead: true, layers: 2 }],
    [
      'odd sizes',
      { hiddenSize: 37, intermediateSize: 51, heads: 7, kvHeads: 1, headSize: 20, vocabSize: 389, layers: 3 },
    ],
    ['as many KV heads as heads', { hiddenSize: 30, heads: 3, kvHeads: 3, headSize: 12, vocabSize: 513 }],
  ])('%s', async (_, shape) => {
    const { checkpoint, config } = tinyModel(3, shape);
    const options = { kvBlocks: 16, maxRows: 128, maxSequences: 3 };
    const gpu = await loadDecoder(await testDevice(), checkpoint, config, options);
    const cpu = await CpuRunner.load(checkpoint, config, options);
    const tokens = randomTokens(5, 100).map((id) => id % config.vocabSize);
    const batch = {
      sequences: [
        { slot: 0, tokens: tokens.slice(0, 90), startPosition: 0, blockTable: [15, 3, 4, 9, 1, 0] },
        { slot: 2, tokens: tokens.slice(90), startPosition: 0, blockTable: [7] },
      ],
      logits: [0, 17, 63, 64, 89, 90, 99].map((row) => logitsRow(row, row < 90 ? 0 : 2)),
    };
    const [actual, expected] = [await gpu.logits(batch), await cpu.logits(batch)];
    actual.forEach((logits, i) => {
      expect(largestError(logits, expected[i]!)).toBeLessThan(1e-4);
    });
    const next = {
      sequences: [{ slot: 0, tokens: 'slot' as const, startPosition: 90, blockTable: [15, 3, 4, 9, 1, 0] }],
      logits: [logitsRow(0, 0, { logprob: true, topLogprobs: 3 })],
    };
    const [[a], [b]] = [await gpu.step(next), await cpu.step(next)];
    expect([a!.id, [...a!.top!.ids]]).toEqual([b!.id, [...b!.top!.ids]]);
    expect(Math.abs(a!.logprob! - b!.logprob!)).toBeLessThan(1e-4);
    gpu.destroy();
  });

  test.each(['f16', 'bf16'] as const)('the bundled model in %s, norms too', async (format) => {
    const checkpoint = await convertCheckpoint(await storiesCheckpoint(), format);
    const gpu = await loadDecoder(await testDevice(), checkpoint, storiesConfig(), OPTIONS);
    const cpu = await CpuRunner.load(checkpoint, storiesConfig(), OPTIONS);
    expect(gpu.weightBytes).toBeLessThan(0.55 * runner.weightBytes);
    const tokens = randomTokens(6, 70);
    const batch = {
      sequences: [{ slot: 0, tokens, startPosition: 0, blockTable: blocksFor(70) }],
      logits: [logitsRow(0, 0), logitsRow(69, 0)],
    };
    const [actual, expected, full] = [await gpu.logits(batch), await cpu.logits(batch), await runner.logits(batch)];
    expect(largestError(actual[1]!, expected[1]!)).toBeLessThan(1e-4);
    // It is the converted model, not the original.
    expect(largestError(actual[1]!, full[1]!)).toBeGreaterThan(1e-4);
    gpu.destroy();
  });

  test('formats mixed inside one product', async () => {
    const mixed = (name: string) => name.includes('k_proj') || name.includes('up_proj');
    const checkpoint = await convertCheckpoint(await storiesCheckpoint(), 'bf16', mixed);
    const gpu = await loadDecoder(await testDevice(), checkpoint, storiesConfig(), OPTIONS);
    const cpu = await CpuRunner.load(checkpoint, storiesConfig(), OPTIONS);
    const batch = {
      sequences: [{ slot: 0, tokens: randomTokens(7, 20), startPosition: 0, blockTable: blocksFor(20) }],
      logits: [logitsRow(19, 0)],
    };
    const [[actual], [expected]] = [await gpu.logits(batch), await cpu.logits(batch)];
    expect(largestError(actual!, expected!)).toBeLessThan(1e-4);
    gpu.destroy();
  });
});

describe('steps in flight', () => {
  test('feed each other on the GPU before any has settled', async () => {
    const expected = await generate(runner, [1], 8);
    const blockTable = blocksFor(9, 30);
    const start = { slot: 5, tokens: [1], startPosition: 0, blockTable };
    const next = (position: number) => ({ slot: 5, tokens: 'slot' as const, startPosition: position, blockTable });
    const settled: SampledRow[][] = [];
    for (let i = 0; i < 8; i += 4) {
      const steps = [0, 1, 2, 3].map((j) =>
        runner.step({ sequences: [i + j === 0 ? start : next(i + j)], logits: [logitsRow(0, 5)] }),
      );
      settled.push(...(await Promise.all(steps)));
    }
    expect(settled.map(([row]) => row!.id)).toEqual(expected.map((row) => row.id));
  });

  test('are bounded, and one too many harms none', async () => {
    const batch = {
      sequences: [{ slot: 0, tokens: [1], startPosition: 0, blockTable: [0] }],
      logits: [logitsRow(0, 0)],
    };
    const results = await Promise.allSettled(Array.from({ length: 5 }, () => runner.step(batch)));
    expect(results.map(({ status }) => status)).toEqual([...new Array(4).fill('fulfilled'), 'rejected']);
    expect(String((results[4] as PromiseRejectedResult).reason)).toMatch(/4 steps are in flight/);
    expect(await runner.step(batch)).toHaveLength(1);
  });

  test('a step without logits rows settles when its work is done', async () => {
    const prefill = { slot: 0, tokens: randomTokens(8, 30), startPosition: 0, blockTable: blocksFor(30) };
    expect(await runner.step({ sequences: [prefill], logits: [] })).toEqual([]);
  });

  test('a refused step leaves no trace', async () => {
    const bad = { sequences: [{ slot: 99, tokens: [1], startPosition: 0, blockTable: [0] }], logits: [] };
    for (let i = 0; i < 6; i++) await expect(runner.step(bad)).rejects.toThrow(/slot 99/);
    expect(await generate(runner, [1], 2)).toHaveLength(2);
  });
});

test('many steps allocate nothing', async () => {
  await generate(runner, [1], 3, { topLogprobs: 5 });
  const before = [runner.allocatedBytes, runner.allocatedBuffers];
  await generate(runner, randomTokens(9, 90), 60, { sampling: { ...GREEDY, temperature: 1 }, topLogprobs: 5 });
  expect([runner.allocatedBytes, runner.allocatedBuffers]).toEqual(before);
  expect(runner.allocatedBytes).toBeGreaterThan(runner.weightBytes + runner.kvBytes);
});

test('NaN weights are seen in the result', async () => {
  const { checkpoint, config } = tinyModel(4);
  const poisoned = {
    ...checkpoint,
    async read(tensor: Parameters<typeof checkpoint.read>[0], from?: number, length?: number) {
      const bytes = (await checkpoint.read(tensor, from, length)).slice();
      if (tensor.name.includes('gate_proj')) new Float32Array(bytes.buffer)[5] = Number.NaN;
      return bytes;
    },
  };
  const gpu = await loadDecoder(await testDevice(), poisoned, config, { kvBlocks: 4, maxRows: 8, maxSequences: 2 });
  const rows = await generate(gpu, [1, 2], 1);
  expect(rows[0]!.nonFinite).toBe(true);
  gpu.destroy();
});

describe('the end', () => {
  const batch = {
    sequences: [{ slot: 0, tokens: [1], startPosition: 0, blockTable: [0] }],
    logits: [logitsRow(0, 0)],
  };
  const options = { kvBlocks: 4, maxRows: 8, maxSequences: 2 };

  test('a lost device rejects the steps in flight and all later ones', async () => {
    const device = await newTestDevice();
    const { checkpoint, config } = tinyModel(5);
    const gpu = await loadDecoder(device, checkpoint, config, options);
    const pending = gpu.step(batch);
    device.destroy();
    await expect(pending).rejects.toThrow(/the GPU device was lost/);
    await expect(gpu.step(batch)).rejects.toBeInstanceOf(RunnerLostError);
  });

  test('destroy frees every buffer and ends the steps in flight', async () => {
    const { checkpoint, config } = tinyModel(6);
    const gpu = await loadDecoder(await testDevice(), checkpoint, config, options);
    const pending = gpu.step(batch);
    gpu.destroy();
    expect([gpu.allocatedBytes, gpu.allocatedBuffers]).toEqual([0, 0]);
    await expect(pending).rejects.toThrow(/the runner was destroyed/);
    await expect(gpu.step(batch)).rejects.toThrow(/the runner was destroyed/);
  });
});
