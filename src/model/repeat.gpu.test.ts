import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../gpu/testing/random.ts';
import { testDevice } from '../testing/device.ts';
import { CpuRunner } from './cpu-runner.ts';
import { loadDecoder } from './load-decoder.ts';
import type { Runner, SampledRow, StepBatch } from './runner.ts';
import { StepError } from './step-error.ts';
import { blocksFor, GREEDY, logitsRow } from './testing/generate.ts';
import { tinyModel } from './testing/tiny-model.ts';

const OPTIONS = { kvBlocks: 40, maxRows: 256, maxSequences: 6 };
const model = tinyModel(5, { layers: 2, contextLength: 200, vocabSize: 60 });
const random = new Random(9);
const prompt = (length: number) => Array.from({ length }, () => random.integer(0, 59));
const SAMPLED = { ...GREEDY, temperature: 1, topP: 0.9, seed: 77n };

describe.each(['gpu', 'cpu'] as const)('%s', (kind) => {
  let runner: Runner;
  beforeAll(async () => {
    runner =
      kind === 'gpu'
        ? await loadDecoder(await testDevice(), model.checkpoint, model.config, OPTIONS)
        : await CpuRunner.load(model.checkpoint, model.config, OPTIONS);
  });
  afterAll(() => runner.destroy());

  /** Three ragged sequences, prefilled; their decode rows for `position` tokens further on. */
  async function begin(lengths: readonly number[]) {
    const prompts = lengths.map(prompt);
    let first = 0;
    const tables = lengths.map((length) => {
      const table = blocksFor(length + 20, first);
      first += table.length;
      return table;
    });
    let row = -1;
    const rows = await runner.step({
      sequences: prompts.map((tokens, slot) => ({ slot, tokens, startPosition: 0, blockTable: tables[slot]! })),
      logits: prompts.map((tokens, slot) => {
        row += tokens.length;
        return logitsRow(row, slot, { sampling: { ...SAMPLED, sampleIndex: slot }, logprob: true });
      }),
    });
    const decode = (step: number, repeat: number): StepBatch => ({
      repeat,
      sequences: lengths.map((length, slot) => ({
        slot,
        tokens: 'slot',
        startPosition: length + step,
        blockTable: tables[slot]!,
      })),
      logits: lengths.map((_, slot) =>
        logitsRow(slot, slot, {
          outputPosition: step + 1,
          sampling: { ...SAMPLED, sampleIndex: slot },
          logprob: slot > 0,
        }),
      ),
    });
    return { prompts, tables, rows, decode };
  }

  // 60 … 66 crosses attention's splits of 64 keys; 15 … 17 crosses a block.
  test.each([[[60, 15, 1]], [[63, 128, 62]]])('repeated steps equal single ones, from lengths %j', async (lengths) => {
    const one = await begin(lengths);
    const single: SampledRow[] = [];
    for (let step = 0; step < 7; step++) single.push(...(await runner.step(one.decode(step, 1))));
    // The same prompts again, in the same blocks.
    await runner.step({
      sequences: one.prompts.map((tokens, slot) => ({ slot, tokens, startPosition: 0, blockTable: one.tables[slot]! })),
      logits: lengths.map((_, slot) =>
        logitsRow(
          lengths.slice(0, slot + 1).reduce((sum, length) => sum + length, -1),
          slot,
          {
            sampling: { ...SAMPLED, sampleIndex: slot },
          },
        ),
      ),
    });
    const repeated = [...(await runner.step(one.decode(0, 5))), ...(await runner.step(one.decode(5, 2)))];
    expect(repeated).toEqual(single);
  });

  test('a sequence goes on from copied blocks as from its own', async () => {
    const length = 40;
    const tokens = prompt(length);
    const own = blocksFor(length + 4);
    const step = (blockTable: number[], more: Partial<StepBatch> = {}) =>
      runner.step({
        sequences: [{ slot: 0, tokens: [7], startPosition: length, blockTable }],
        logits: [logitsRow(0, 0, { logprob: true, topLogprobs: 5 })],
        ...more,
      });
    await runner.step({ sequences: [{ slot: 0, tokens, startPosition: 0, blockTable: own }], logits: [] });
    const expected = await step(own);
    const copied = own.map((block) => block + 10);
    const copies = own.map((from) => ({ from, to: from + 10 }));
    expect(await step(copied, { copies })).toEqual(expected);
    // A shared head and a copied tail; the source is as it was.
    const tail = [own[0]!, own[1]!, 30];
    expect(await step(tail, { copies: [{ from: own[2]!, to: 30 }] })).toEqual(expected);
    expect(await step(own)).toEqual(expected);
  });

  test.each([
    [
      'a source that is a target',
      {
        copies: [
          { from: 1, to: 2 },
          { from: 2, to: 3 },
        ],
      },
      /source and a target/,
    ],
    [
      'two copies to one block',
      {
        copies: [
          { from: 1, to: 3 },
          { from: 2, to: 3 },
        ],
      },
      /same target/,
    ],
    ['a block outside the pool', { copies: [{ from: 1, to: 40 }] }, /copy 0/],
    ['more steps than there can be', { repeat: 17 }, /repeat 17/],
    ['half a step', { repeat: 0.5 }, /repeat 0.5/],
  ])('refuses %s', async (_, more, reason) => {
    const batch = {
      sequences: [{ slot: 0, tokens: [1], startPosition: 0, blockTable: [0, 1] }],
      logits: [logitsRow(0, 0)],
      ...more,
    };
    const refusal = runner.step(batch);
    await expect(refusal).rejects.toThrow(StepError);
    await expect(refusal).rejects.toThrow(reason);
  });

  test('refuses to repeat what is not decode alone', async () => {
    const sequences = [{ slot: 0, tokens: [1, 2], startPosition: 0, blockTable: [0] }];
    const prefill = { sequences, logits: [logitsRow(1, 0)], repeat: 2 };
    await expect(runner.step(prefill)).rejects.toThrow(/one row a sequence/);
    const decode = { sequences: [{ ...sequences[0]!, tokens: [1] }], repeat: 2 };
    await expect(runner.step({ ...decode, logits: [] })).rejects.toThrow(/one row a sequence/);
    await expect(runner.step({ ...decode, logits: [logitsRow(0, 0, { topLogprobs: 1 })] })).rejects.toThrow(/top/);
    const late = { sequences: [{ ...sequences[0]!, tokens: [1], startPosition: 15 }], logits: [logitsRow(0, 0)] };
    await expect(runner.step({ ...late, repeat: 2 })).rejects.toThrow(/1 blocks in its table, 2 needed/);
  });
});
