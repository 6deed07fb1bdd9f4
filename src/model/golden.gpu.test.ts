import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testDevice } from '../testing/device.ts';
import cases from '../testing/golden/stories260K-cases.json';
import reference from '../testing/golden/stories260K-reference.json';
import type { GpuRunner } from './gpu-runner.ts';
import { loadLlama } from './load-llama.ts';
import { blocksFor, generate, logitsRow } from './testing/generate.ts';
import { storiesCheckpoint, storiesConfig } from './testing/stories.ts';

let runner: GpuRunner;

beforeAll(async () => {
  runner = await loadLlama(await testDevice(), await storiesCheckpoint(), storiesConfig(), {
    kvBlocks: 64,
    maxRows: 256,
    maxSequences: 8,
  });
});

afterAll(() => runner.destroy());

const ids = reference.greedy_ids_from_bos;

test('greedy ids from BOS are the reference', async () => {
  const start = performance.now();
  const rows = await generate(runner, [1], ids.length - 1);
  console.log('ms/step', (performance.now() - start) / rows.length);
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

describe.each(cases.cases)('case $prompt, BOS $bos', (golden) => {
  test('greedy ids, logprobs and top 5', async () => {
    const rows = await generate(runner, golden.ids, golden.greedy.length, { logprob: true, topLogprobs: 5 });
    expect(rows.map((row) => row.id)).toEqual(golden.greedy);
    rows.forEach((row, i) => {
      expect(Math.abs(row.logprob! - golden.output_logprobs[i]!)).toBeLessThan(2e-3);
      const top = golden.output_top5[i]! as [number, number][];
      expect([...row.top!.ids]).toEqual(top.map(([id]) => id));
      top.forEach(([, logprob], j) => {
        expect(Math.abs(row.top!.logprobs[j]! - logprob)).toBeLessThan(2e-3);
      });
    });
  });
});
