import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keptReference } from '../gpu/sampler.reference.ts';
import { testDevice } from '../testing/device.ts';
import cases from '../testing/golden/stories260K-cases.json';
import reference from '../testing/golden/stories260K-reference.json';
import type { GpuRunner } from './gpu-runner.ts';
import { loadDecoder } from './load-decoder.ts';
import type { LogitsRow, SampledRow } from './runner.ts';
import { blocksFor, GREEDY, generate, logitsRow, slotStart } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';

let runner: GpuRunner;

beforeAll(async () => {
  runner = await loadDecoder(await testDevice(), await storiesCheckpoint(), storiesConfig(), {
    kvBlocks: 64,
    maxRows: 256,
    maxSequences: 8,
  });
});

afterAll(() => runner.destroy());

const ids = reference.greedy_ids_from_bos;

test('greedy ids from BOS are the reference', async () => {
  const rows = await generate(runner, [1], ids.length - 1);
  expect(rows.map((row) => row.id)).toEqual(ids.slice(1));
  expect(rows.every((row) => !row.nonFinite)).toBe(true);
});

test('logits at position 31 are the reference to 1e-3', async () => {
  const tokens = ids.slice(0, 32);
  const [logits] = await runner.logits({
    sequences: [{ slot: 0, tokens, startPosition: 0, blockTable: blocksFor(32) }],
    logits: [logitsRow(31, 0)],
  });
  const error = Math.max(...logits!.map((logit, i) => Math.abs(logit - reference.logits_at_position_31[i]!)));
  expect(error).toBeLessThan(1e-3);
});

/** Ids exactly; logprobs and the best five to the golden file's own tolerance. */
function expectLogprobs(rows: readonly SampledRow[], logprobs: readonly number[], top5: readonly number[][][]) {
  rows.forEach((row, i) => {
    expect(Math.abs(row.logprob! - logprobs[i]!)).toBeLessThan(cases.tolerance.logprob);
    expect([...row.top!.ids]).toEqual(top5[i]!.map(([id]) => id));
    top5[i]!.forEach(([, logprob], j) => {
      expect(Math.abs(row.top!.logprobs[j]! - logprob!)).toBeLessThan(cases.tolerance.logprob);
    });
  });
}

describe.each(cases.cases)('case $prompt, BOS $bos', (golden) => {
  test('greedy ids, logprobs and top 5', async () => {
    const rows = await generate(runner, golden.ids, golden.greedy.length, { logprob: true, topLogprobs: 5 });
    expect(rows.map((row) => row.id)).toEqual(golden.greedy);
    expectLogprobs(rows, golden.output_logprobs, golden.output_top5);
  });

  test('the same path at temperature 0.7', async () => {
    const { ids: path, output_logprobs, output_top5 } = golden['temperature_0.7'];
    // Top k 1 keeps to the greedy path; logprobs are of the whole vocabulary all the same.
    const sampling = { ...GREEDY, temperature: 0.7, topK: 1 };
    const rows = await generate(runner, golden.ids, path.length, { logprob: true, topLogprobs: 5, sampling });
    expect(rows.map((row) => row.id)).toEqual(path);
    expectLogprobs(rows, output_logprobs, output_top5);
  });

  test('logprobs and top 5 of the prompt, and its last hidden state', async () => {
    const { ids: prompt, input_logprobs, input_top5, last_prompt_hidden } = golden;
    const scored = prompt.slice(1).map((id, i) => logitsRow(i, 0, { scored: id, logprob: true, topLogprobs: 5 }));
    const rows = await runner.step({
      sequences: [{ slot: 0, tokens: prompt, startPosition: 0, blockTable: blocksFor(prompt.length) }],
      logits: [...scored, logitsRow(prompt.length - 1, 0, { hidden: true })],
    });
    expectLogprobs(rows.slice(0, -1), input_logprobs.slice(1) as number[], input_top5.slice(1) as number[][][]);
    const hidden = rows.at(-1)!.hidden!;
    expect(hidden).toHaveLength(last_prompt_hidden.length);
    const error = Math.max(...hidden.map((value, i) => Math.abs(value - last_prompt_hidden[i]!)));
    expect(error).toBeLessThan(cases.tolerance.hidden);
  });
});

const penalties = cases.penalties.map((golden) => [JSON.stringify(golden.params), golden] as const);

test.each(penalties)('ids under %s', async (_, { ids: prompt, params, output_ids }) => {
  const start = {
    frequencyPenalty: params.frequency_penalty,
    presencePenalty: params.presence_penalty,
    repetitionPenalty: params.repetition_penalty,
    stopIds: cases.eos_ids,
    minNewTokens: params.min_new_tokens,
    biases: Object.entries(params.logit_bias).map(([id, bias]) => ({ id: Number(id), bias })),
  };
  const rows = await generate(runner, prompt, output_ids.length, {}, start);
  expect(rows.map((row) => row.id)).toEqual(output_ids);
});

describe.each(cases.sampling)('sampling after $prompt', (golden) => {
  const batch = (rows: readonly LogitsRow[]) => ({
    sequences: [{ slot: 0, tokens: golden.ids, startPosition: 0, blockTable: blocksFor(golden.ids.length) }],
    logits: rows,
    starts: [slotStart(0)],
  });
  const last = golden.ids.length - 1;

  test.each(Object.entries(golden.temperatures))('temperature %s', async (text, expected) => {
    const temperature = Number(text);
    const sampling = { ...GREEDY, temperature };
    const [[row], [logits]] = [
      await runner.step(batch([logitsRow(last, 0, { sampling, topLogprobs: 12 })])),
      await runner.logits(batch([logitsRow(last, 0)])),
    ];
    expect([...row!.top!.ids]).toEqual(expected.top12.map(([id]) => id));
    expected.top12.forEach(([, probability], i) => {
      // The reference's own float32 logits differ by some 1e-5.
      expect(Math.exp(row!.top!.logprobs[i]!) / probability!).toBeCloseTo(1, 3);
    });
    for (const [topP, count] of Object.entries(expected.kept_top_p)) {
      expect(keptReference(logits!, { ...sampling, topP: Number(topP) }).length).toBe(count);
    }
    for (const [minP, count] of Object.entries(expected.kept_min_p)) {
      expect(keptReference(logits!, { ...sampling, minP: Number(minP) }).length).toBe(count);
    }
  });

  test('what is drawn is what the golden file keeps', async () => {
    const { top12, kept_top_p } = golden.temperatures['1.5'];
    for (const [topP, count] of Object.entries(kept_top_p)) {
      const rows = Array.from({ length: 64 }, (_, i) =>
        logitsRow(last, 0, {
          sampling: { ...GREEDY, temperature: 1.5, topP: Number(topP), seed: 42n },
          outputPosition: i,
        }),
      );
      const drawn = new Set((await runner.step(batch(rows))).map((row) => row.id));
      const kept = top12.slice(0, count).map(([id]) => id!);
      expect(kept).toEqual(expect.arrayContaining([...drawn]));
    }
  });
});
