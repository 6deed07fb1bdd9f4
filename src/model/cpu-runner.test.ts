import { expect, test } from 'vitest';
import cases from '../testing/golden/stories260K-cases.json';
import { CpuRunner } from './cpu-runner.ts';
import { blocksFor, generate, logitsRow } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';
import { tinyModel } from './testing/tiny-model.ts';

test('agrees with the golden case of the bundled model', async () => {
  const options = { kvBlocks: 8, maxRows: 16, maxSequences: 1 };
  const runner = await CpuRunner.load(await storiesCheckpoint(), storiesConfig(), options);
  const golden = cases.cases[1]!;
  const rows = await generate(runner, golden.ids, 12, { logprob: true, topLogprobs: 5 });
  expect(rows.map((row) => row.id)).toEqual(golden.greedy.slice(0, 12));
  rows.forEach((row, i) => {
    expect(Math.abs(row.logprob! - golden.output_logprobs[i]!)).toBeLessThan(2e-3);
    expect([...row.top!.ids]).toEqual(golden.output_top5[i]!.map(([id]) => id));
  });
});

test('chunks, decode rows and company give the logits of one prefill, over any blocks', async () => {
  const { checkpoint, config } = tinyModel(1);
  const runner = await CpuRunner.load(checkpoint, config, { kvBlocks: 12, maxRows: 64, maxSequences: 4 });
  const tokens = Array.from({ length: 40 }, (_, i) => (i * 7) % 40);
  const [whole] = await runner.logits({
    sequences: [{ slot: 0, tokens, startPosition: 0, blockTable: blocksFor(40) }],
    logits: [logitsRow(39, 0)],
  });
  const blockTable = [11, 4, 7];
  const other = { slot: 1, tokens: [3, 1], startPosition: 0, blockTable: [5] };
  await runner.step({
    sequences: [other, { slot: 2, tokens: tokens.slice(0, 23), startPosition: 0, blockTable }],
    logits: [],
  });
  await runner.step({
    sequences: [{ slot: 2, tokens: tokens.slice(23, 39), startPosition: 23, blockTable }],
    logits: [],
  });
  const [pieced] = await runner.logits({
    sequences: [{ slot: 2, tokens: [tokens[39]!], startPosition: 39, blockTable }],
    logits: [logitsRow(0, 2)],
  });
  expect(pieced).toEqual(whole);
  expect(new Set(whole).size).toBeGreaterThan(30);
});

test("'slot' takes the id that the slot sampled last", async () => {
  const { checkpoint, config } = tinyModel(2);
  const runner = await CpuRunner.load(checkpoint, config, { kvBlocks: 4, maxRows: 8, maxSequences: 2 });
  const start = { slot: 1, tokens: [5, 6], startPosition: 0, blockTable: [0] };
  const [first] = await runner.step({ sequences: [start], logits: [logitsRow(1, 1)] });
  const next = async (tokens: 'slot' | number[]) =>
    (
      await runner.logits({
        sequences: [{ slot: 1, tokens, startPosition: 2, blockTable: [0] }],
        logits: [logitsRow(0, 1)],
      })
    )[0];
  const given = await next([first!.id]);
  await runner.step({ sequences: [start], logits: [logitsRow(1, 1)] });
  expect(await next('slot')).toEqual(given);
});
