import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { packIdSet } from '../gpu/slot-layout.ts';
import { newTestDevice, testDevice } from '../testing/device.ts';
import { CpuRunner } from './cpu-runner.ts';
import type { GpuRunner } from './gpu-runner.ts';
import { loadDecoder } from './load-decoder.ts';
import type { Runner, SampledRow, StepBatch } from './runner.ts';
import { RunnerLostError } from './runner-lost-error.ts';
import { blocksFor, GREEDY, logitsRow, slotStart } from './testing/generate.ts';
import { differences, RandomSteps } from './testing/random-steps.ts';
import { tinyModel } from './testing/tiny-model.ts';

const OPTIONS = { kvBlocks: 24, maxRows: 64, maxSequences: 4 };
const model = tinyModel(21, { layers: 2, contextLength: 200, vocabSize: 61, hiddenSize: 18 });

let gpu: GpuRunner;
let cpu: CpuRunner;
let table: Float32Array;
beforeAll(async () => {
  gpu = await loadDecoder(await testDevice(), model.checkpoint, model.config, OPTIONS);
  cpu = await CpuRunner.load(model.checkpoint, model.config, OPTIONS);
  const bytes = await model.checkpoint.read(model.checkpoint.tensors.get('model.embed_tokens.weight')!);
  table = new Float32Array(bytes.slice().buffer);
});
afterAll(() => gpu.destroy());

const embedding = (id: number) => table.slice(id * 18, (id + 1) * 18);

function run(
  runner: Runner,
  batch: StepBatch,
  masks: readonly (Uint32Array | undefined)[] = [],
): Promise<SampledRow[]> {
  const step = runner.step(batch);
  if (masks.length > 0) runner.drawMasked(masks);
  return step;
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])('random steps agree with the CPU runner, seed %i', async (seed) => {
  const steps = new RandomSteps(seed, cpu.limits, embedding);
  for (let i = 0; i < 40; i++) {
    const { batch, masks } = steps.next();
    const [actual, expected] = await Promise.all([run(gpu, batch, masks), run(cpu, batch, masks)]);
    expect([i, differences(actual, expected)]).toEqual([i, []]);
  }
});

test('random steps allocate nothing', async () => {
  const before = [gpu.allocatedBytes, gpu.allocatedBuffers];
  const steps = new RandomSteps(9, gpu.limits, embedding);
  for (let i = 0; i < 30; i++) {
    const { batch, masks } = steps.next();
    await run(gpu, batch, masks);
  }
  expect([gpu.allocatedBytes, gpu.allocatedBuffers]).toEqual(before);
});

test.each(['greedy', 'sampled'])('a %s row that may draw nothing says so', async (kind) => {
  const sampling = kind === 'greedy' ? GREEDY : { ...GREEDY, temperature: 1, topP: 0.5 };
  const batch: StepBatch = {
    sequences: [{ slot: 0, tokens: [3], startPosition: 0, blockTable: [0] }],
    logits: [logitsRow(0, 0, { masked: true, sampling })],
    starts: [slotStart(0, { stopIds: [9], minNewTokens: 1, biases: [{ id: 9, bias: 40 }] })],
  };
  for (const runner of [gpu, cpu]) {
    const [row] = await run(runner, batch, [packIdSet([9], 61)]);
    expect(row!.nonFinite).toBe(true);
    const [other] = await run(runner, batch, [packIdSet([9, 10], 61)]);
    expect([other!.id, other!.nonFinite]).toEqual([10, false]);
  }
});

describe('on the GPU', () => {
  const prompt = [1, 5, 9, 33, 60, 2];
  const length = prompt.length;
  const prefill = (slot: number, more: Partial<StepBatch> = {}): StepBatch => ({
    sequences: [{ slot, tokens: prompt, startPosition: 0, blockTable: blocksFor(96, slot * 6) }],
    logits: [logitsRow(length - 1, slot)],
    ...more,
  });
  const decode = (slot: number, i: number, repeat = 1): StepBatch => ({
    sequences: [{ slot, tokens: 'slot', startPosition: length + i, blockTable: blocksFor(96, slot * 6) }],
    logits: [logitsRow(0, slot, { outputPosition: 1 + i, logprob: true })],
    repeat,
  });

  test('repeated steps with penalties, biases and stop ids are the same steps one at a time', async () => {
    const adjusted = {
      frequencyPenalty: 0.7,
      presencePenalty: -0.2,
      repetitionPenalty: 1.4,
      outputIds: [3, 3, 8],
      biases: [
        { id: 4, bias: 3 },
        { id: 9, bias: -2 },
      ],
      stopIds: [12, 40, 59],
      minNewTokens: 9,
    };
    const single: SampledRow[] = [];
    const first = await gpu.step(prefill(1, { starts: [slotStart(1, adjusted)] }));
    for (let i = 0; i < 20; i++) single.push(...(await gpu.step(decode(1, i))));
    const again = await gpu.step(prefill(1, { starts: [slotStart(1, adjusted)] }));
    const repeated = [...(await gpu.step(decode(1, 0, 13))), ...(await gpu.step(decode(1, 13, 7)))];
    expect([...again, ...repeated]).toEqual([...first, ...single]);
    // Without them it is another path: the test isn't about nothing.
    await gpu.step(prefill(1, { starts: [slotStart(1)] }));
    const plain = await gpu.step(decode(1, 0, 13));
    expect(plain.map(({ id }) => id)).not.toEqual(repeated.slice(0, 13).map(({ id }) => id));
  });

  test('a slot that another sequence takes over keeps nothing, and steps in flight keep what they had', async () => {
    const heavy = { frequencyPenalty: 2, biases: [{ id: 7, bias: 30 }], stopIds: [1], minNewTokens: 50 };
    const alone = await gpu.step(prefill(2, { starts: [slotStart(2)] }));
    const biased = await gpu.step(prefill(2, { starts: [slotStart(2, heavy)] }));
    expect(biased[0]!.id).toBe(7);
    expect(alone[0]!.id).not.toBe(7);
    const both = await Promise.all([
      gpu.step(prefill(2, { starts: [slotStart(2, heavy)] })),
      gpu.step(prefill(2, { starts: [slotStart(2)] })),
      gpu.step(prefill(2, { starts: [slotStart(2, { ...heavy, biases: [] })] })),
      gpu.step(prefill(2, { starts: [slotStart(2, heavy)] })),
    ]);
    expect([both[0], both[1], both[3]]).toEqual([biased, alone, biased]);
  });

  test('hidden states of a prompt in chunks are those of the whole, bit for bit', async () => {
    const tokens = Array.from({ length: 40 }, (_, i) => (i * 7) % 61);
    const rows = (count: number) =>
      Array.from({ length: count }, (_, i) => logitsRow(i, 0, { scored: 1, hidden: true }));
    const part = (from: number, to: number, blocks: number) =>
      gpu.step({
        sequences: [
          { slot: 0, tokens: tokens.slice(from, to), startPosition: from, blockTable: blocksFor(96, blocks) },
        ],
        logits: rows(to - from),
      });
    const whole = await part(0, 40, 0);
    const chunks = [...(await part(0, 13, 6)), ...(await part(13, 14, 6)), ...(await part(14, 40, 6))];
    expect(chunks.map(({ hidden }) => hidden)).toEqual(whole.map(({ hidden }) => hidden));
    expect(new Set(whole.map(({ hidden }) => hidden!.join())).size).toBe(40);
  });

  test("embeddings that are the ids' own give the same bits", async () => {
    const row = logitsRow(length - 1, 3, { hidden: true, logprob: true, topLogprobs: 61 });
    const embeddings = new Float32Array(prompt.flatMap((id) => [...embedding(id)]));
    const company = { slot: 0, tokens: [4, 4], startPosition: 0, blockTable: [0] };
    const given = { slot: 3, tokens: { embeddings }, startPosition: 0, blockTable: blocksFor(96, 18) };
    const byIds = await gpu.step(prefill(3, { logits: [row], starts: [slotStart(3)] }));
    const byEmbeddings = await gpu.step({ sequences: [company, given], logits: [{ ...row, row: length + 1 }] });
    expect(byEmbeddings).toEqual(byIds);
    const other = { ...given, tokens: { embeddings: embeddings.map((value) => -value) } };
    expect(await gpu.step({ sequences: [other], logits: [row] })).not.toEqual(byIds);
  });

  test('masked rows among others take the masks of their order, also in several tiles', async () => {
    const many = tinyModel(22, { vocabSize: 70 });
    const options = { kvBlocks: 20, maxRows: 64, maxSequences: 20 };
    const wide = await loadDecoder(await testDevice(), many.checkpoint, many.config, options);
    const sequences = Array.from({ length: 20 }, (_, slot) => ({
      slot,
      tokens: [slot, 2 * slot],
      startPosition: 0,
      blockTable: [slot],
    }));
    const logits = sequences.map(({ slot }) => logitsRow(2 * slot + 1, slot, { masked: slot % 3 > 0, hidden: true }));
    const plain = await wide.step({ sequences, logits: logits.map((row) => ({ ...row, masked: false })) });
    const only = logits.filter(({ masked }) => masked).map((_, i) => packIdSet([i + 40], 70));
    const step = wide.step({ sequences, logits });
    await expect(wide.step({ sequences, logits })).rejects.toThrow(/masked rows/);
    expect(() => wide.drawMasked(only.slice(1))).toThrow(/12 masks for 13/);
    wide.drawMasked(only);
    const rows = await step;
    let next = 40;
    rows.forEach((row, slot) => {
      expect(row).toEqual(slot % 3 > 0 ? { ...plain[slot]!, id: next++ } : plain[slot]!);
    });
    expect(() => wide.drawMasked([])).toThrow(/no masked rows/);
    const pending = wide.step({ sequences, logits });
    wide.destroy();
    await expect(pending).rejects.toThrow(/destroyed/);
    expect([wide.allocatedBytes, wide.allocatedBuffers]).toEqual([0, 0]);
    expect(() => wide.drawMasked(only)).toThrow(/destroyed/);
  });
});

test('a device that is lost while masks are made ends the step', async () => {
  const device = await newTestDevice();
  const runner = await loadDecoder(device, model.checkpoint, model.config, OPTIONS);
  const step = runner.step({
    sequences: [{ slot: 0, tokens: [3], startPosition: 0, blockTable: [0] }],
    logits: [logitsRow(0, 0, { masked: true })],
  });
  device.destroy();
  await expect(step).rejects.toThrow(/device was lost/);
  expect(() => runner.drawMasked([undefined])).toThrow(RunnerLostError);
  runner.destroy();
});
