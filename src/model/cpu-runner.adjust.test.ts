import { beforeEach, describe, expect, test } from 'vitest';
import { MASKED_LOGIT } from '../gpu/adjust-logits.reference.ts';
import { Random } from '../gpu/testing/random.ts';
import { CpuRunner } from './cpu-runner.ts';
import { maskWords } from './masks.ts';
import type { SampledRow, SlotStart, StepBatch } from './runner.ts';
import { StepError } from './step-error.ts';
import { blocksFor, logitsRow, slotStart } from './testing/generate.ts';
import { tinyModel } from './testing/tiny-model.ts';

const model = tinyModel(8, { vocabSize: 40, layers: 2 });
let runner: CpuRunner;
beforeEach(async () => {
  runner = await CpuRunner.load(model.checkpoint, model.config, { kvBlocks: 32, maxRows: 64, maxSequences: 4 });
});

const PROMPT = [1, 5, 9, 33];
const prefill = (slot = 0, more: Partial<StepBatch> = {}): StepBatch => ({
  sequences: [{ slot, tokens: PROMPT, startPosition: 0, blockTable: blocksFor(24) }],
  logits: [logitsRow(3, slot)],
  ...more,
});
const start = (more: Partial<SlotStart>) => ({ starts: [slotStart(0, more)] });

/** The raw logits after the prompt, and their order best first. */
async function plain() {
  const [logits] = await runner.logits(prefill());
  const order = [...logits!.keys()].sort((a, b) => logits![b]! - logits![a]!);
  return { logits: logits!, order };
}

describe('a draw', () => {
  test('sees penalties over the output so far', async () => {
    const { logits, order } = await plain();
    const [best, second] = order as [number, number];
    const gap = logits[best]! - logits[second]!;
    const once = await runner.step(prefill(0, start({ presencePenalty: 2, outputIds: [best] })));
    expect(once[0]!.id).toBe(gap < 2 ? second : best);
    const outputIds = new Array(Math.ceil(gap / 0.5) + 1).fill(best);
    const often = await runner.step(prefill(0, start({ frequencyPenalty: 0.5, outputIds })));
    expect(often[0]!.id).toBe(second);
  });

  test('adds biases, and never draws a stop id before its time', async () => {
    const { order } = await plain();
    const [best, second, third] = order as [number, number, number];
    const biased = await runner.step(prefill(0, start({ biases: [{ id: third, bias: 50 }] })));
    expect(biased[0]!.id).toBe(third);
    const stops = start({ stopIds: [best], minNewTokens: 1, biases: [{ id: best, bias: 1000 }] });
    expect((await runner.step(prefill(0, stops)))[0]!.id).toBe(second);
    const later = { ...prefill(0, stops), logits: [logitsRow(3, 0, { outputPosition: 1 })] };
    expect((await runner.step(later))[0]!.id).toBe(best);
  });

  test('counts itself', async () => {
    const batch = prefill(0, start({ presencePenalty: 2, frequencyPenalty: 2 }));
    const drawn: SampledRow[] = await runner.step(batch);
    for (let i = 0; i < 10; i++) {
      drawn.push(
        ...(await runner.step({
          sequences: [{ slot: 0, tokens: 'slot', startPosition: 4 + i, blockTable: blocksFor(24) }],
          logits: [logitsRow(0, 0, { outputPosition: 1 + i })],
        })),
      );
    }
    const again = await runner.step({
      sequences: [{ slot: 0, tokens: PROMPT, startPosition: 0, blockTable: blocksFor(24) }],
      logits: [logitsRow(3, 0)],
      starts: [slotStart(0, { presencePenalty: 2, frequencyPenalty: 2, outputIds: drawn.map(({ id }) => id) })],
    });
    const [logits] = await runner.logits(prefill(1));
    const expected = logits!.slice();
    for (const { id } of drawn) expected[id]! -= 2;
    for (const id of new Set(drawn.map((row) => row.id))) expected[id]! -= 2;
    expect(again[0]!.id).toBe(expected.indexOf(Math.max(...expected)));
  });
});

describe('a masked row', () => {
  const masked = { ...prefill(), logits: [logitsRow(1, 1), logitsRow(3, 0, { masked: true, logprob: true })] };

  test('is drawn from its mask, in its own place', async () => {
    const { order } = await plain();
    const mask = new Uint32Array(maskWords(40));
    const allowed = [order[5]!, order[9]!];
    for (const id of allowed) mask[id >>> 5]! |= 1 << (id & 31);
    const step = runner.step(masked);
    runner.drawMasked([mask]);
    const rows = await step;
    expect(rows[1]!.id).toBe(allowed[0]);
    expect(rows[1]!.logprob).toBeGreaterThan(-10);
    expect(rows[1]!.logprob).toBeLessThan(0);
    expect(rows[0]!.id).toBe((await runner.step({ ...prefill(), logits: [logitsRow(1, 1)] }))[0]!.id);
  });

  test('holds the next step until its mask came', async () => {
    const step = runner.step(masked);
    await expect(runner.step(prefill())).rejects.toThrow(StepError);
    expect(() => runner.drawMasked([])).toThrow(/0 masks for 1/);
    expect(() => runner.drawMasked([new Uint32Array(1)])).toThrow(/mask 0 has 1 words, not 2/);
    runner.drawMasked([undefined]);
    expect((await step)[1]!.id).toBe((await runner.step(prefill()))[0]!.id);
    expect(() => runner.drawMasked([undefined])).toThrow(/no masked rows/);
  });

  test('ends with the runner', async () => {
    const step = runner.step(masked);
    runner.destroy();
    await expect(step).rejects.toThrow(/destroyed/);
  });
});

test('a scored row draws nothing, and tells logprobs of the logits as they are', async () => {
  const { logits } = await plain();
  const [first] = await runner.step(prefill());
  const sum = logits.reduce((total, logit) => total + Math.exp(logit), 0);
  const scored = logitsRow(3, 0, { scored: 7, logprob: true, topLogprobs: 2, idLogprobs: true });
  const rows = await runner.step({
    ...prefill(0, start({ logprobIds: [4, 7], biases: [{ id: 7, bias: 9 }], frequencyPenalty: 1 })),
    logits: [logitsRow(0, 0, { scored: 3 }), scored],
  });
  expect(rows[0]).toEqual({ id: 3, nonFinite: false });
  expect(rows[1]!.id).toBe(7);
  expect(rows[1]!.logprob).toBeCloseTo(logits[7]! - Math.log(sum), 5);
  expect(rows[1]!.idLogprobs![1]).toBeCloseTo(rows[1]!.logprob!, 6);
  expect(rows[1]!.idLogprobs![0]).toBeCloseTo(logits[4]! - Math.log(sum), 5);
  const decode = (tokens: 'slot' | number[]): StepBatch => ({
    sequences: [{ slot: 0, tokens, startPosition: 4, blockTable: blocksFor(24) }],
    logits: [logitsRow(0, 0, { scored: 0, logprob: true })],
  });
  // The slot keeps what it drew before.
  expect(await runner.step(decode('slot'))).toEqual(await runner.step(decode([first!.id])));
});

test('a masked logit tells the lowest finite logprob', async () => {
  const [row] = await runner.step({
    ...prefill(0, start({ stopIds: [4], minNewTokens: 1, logprobIds: [4] })),
    logits: [logitsRow(3, 0, { idLogprobs: true })],
  });
  expect([...row!.idLogprobs!]).toEqual([MASKED_LOGIT]);
});

test("embeddings that are the ids' own give the same", async () => {
  const { hiddenSize } = runner.limits;
  const tensor = model.checkpoint.tensors.get('model.embed_tokens.weight')!;
  const bytes = (await model.checkpoint.read(tensor)).slice();
  const table = new Float32Array(bytes.buffer);
  const embeddings = new Float32Array(PROMPT.length * hiddenSize);
  PROMPT.forEach((id, i) => {
    embeddings.set(table.subarray(id * hiddenSize, (id + 1) * hiddenSize), i * hiddenSize);
  });
  const row = logitsRow(3, 0, { hidden: true, logprob: true });
  const byIds = await runner.step({ ...prefill(), logits: [row] });
  const given = { slot: 0, tokens: { embeddings }, startPosition: 0, blockTable: blocksFor(24) };
  expect(await runner.step({ sequences: [given], logits: [row] })).toEqual(byIds);
  expect(byIds[0]!.hidden).toHaveLength(hiddenSize);
});

test('random adjustments are what a plain model of them says', async () => {
  const random = new Random(3);
  for (let round = 0; round < 40; round++) {
    const id = () => random.integer(0, 39);
    const [frequencyPenalty, presencePenalty] = [random.uniform() * 4 - 2, random.uniform() * 4 - 2];
    const repetitionPenalty = random.uniform() * 1.9 + 0.1;
    const outputIds = Array.from({ length: random.integer(0, 12) }, id);
    const biases = random
      .permutation(40)
      .slice(0, random.integer(0, 5))
      .map((one) => ({ id: one, bias: random.normal() * 3 }));
    const stopIds = [id(), id()];
    const more = { frequencyPenalty, presencePenalty, repetitionPenalty, outputIds, biases, stopIds, minNewTokens: 3 };
    const [logits] = await runner.logits(prefill(2));
    const expected = Array.from(logits!, (logit, one) => {
      const count = outputIds.filter((output) => output === one).length;
      if (stopIds.includes(one)) return Number.NEGATIVE_INFINITY;
      const less = count > 0 ? logit - frequencyPenalty * count - presencePenalty : logit;
      const repeated = count === 0 ? less : less < 0 ? less * repetitionPenalty : less / repetitionPenalty;
      return repeated + (biases.find((bias) => bias.id === one)?.bias ?? 0);
    });
    const [row] = await runner.step(prefill(0, start(more)));
    expect(row!.id).toBe(expected.indexOf(Math.max(...expected)));
  }
});
