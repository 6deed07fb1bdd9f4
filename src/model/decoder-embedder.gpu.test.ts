import { expect, test } from 'vitest';
import { testDevice } from '../testing/device.ts';
import { type DecoderEmbedderOptions, loadDecoderEmbedder } from './decoder-embedder.ts';
import { goldenModel, largestDifference } from './testing/golden-encoders.ts';
import { normalise } from './vector-steps.ts';

const long = import.meta.env.SHOAL_LONG === '1' || import.meta.env.SHOAL_LONG === 'true';

const OPTIONS: DecoderEmbedderOptions = { normalised: true, maxRows: 96, maxSequences: 4, kvBudgetBytes: 1 << 22 };

async function open(name: string, more: Partial<DecoderEmbedderOptions> = {}) {
  const model = await goldenModel(name);
  const runner = await loadDecoderEmbedder(await testDevice(), model.checkpoint, model.config, { ...OPTIONS, ...more });
  return { model, runner, rows: await model.rows('input_ids', 48) };
}

test("Qwen3's last hidden states are the reference to 2e-3, in a batch as alone and in pieces", async () => {
  const { model, runner, rows } = await open('qwen3', { maxRows: 128 });
  const size = runner.dimension;
  const pooled = (await model.golden('pooled_last'))!;
  // And shorter ones, whose vectors no golden value has.
  const sequences = [rows[0]!, rows[0]!.subarray(0, 3), rows[1]!, rows[1]!.subarray(0, 17)].map((ids) => ({ ids }));
  const together = await runner.embed(sequences);
  for (const row of [0, 1]) {
    expect(largestDifference(together[2 * row]!, pooled.slice(row * size, (row + 1) * size))).toBeLessThan(2e-3);
  }
  for (const [i, sequence] of sequences.entries()) expect((await runner.embed([sequence]))[0]).toEqual(together[i]);
  runner.destroy();

  const cut = await open('qwen3', { maxRows: 7 });
  expect(await cut.runner.embed(sequences.slice(0, 1))).toEqual(together.slice(0, 1));
  cut.runner.destroy();
});

test('no head is loaded, and none needs to be there', async () => {
  const { checkpoint, config } = await goldenModel('qwen3');
  // As in the larger Qwen3-Embedding: untied, and nothing of the head in the files.
  const untied = { ...config, raw: { ...config.raw, tie_word_embeddings: false } };
  const tensors = new Map([...checkpoint.tensors].filter(([name]) => name !== 'lm_head.weight'));
  const told: (readonly [number, number])[] = [];
  const runner = await loadDecoderEmbedder(await testDevice(), { ...checkpoint, tensors }, untied, {
    ...{ ...OPTIONS, onProgress: (loaded, total) => told.push([loaded, total]) },
  });
  const bytes = [...tensors.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  expect(told.at(-1)).toEqual([bytes, bytes]);
  // Neither logits of the vocabulary nor what draws take.
  expect(runner.allocatedBytes - runner.weightBytes).toBeLessThan(2 * OPTIONS.kvBudgetBytes);
  runner.destroy();
});

test.skipIf(!long)('a window slides over a sequence that is read in pieces', async () => {
  const { model, runner, rows } = await open('mistral', { maxRows: 16 });
  const hidden = (await model.golden('last_hidden'))!;
  const size = runner.dimension;
  for (const row of [0, 1]) {
    const [vector] = await runner.embed([{ ids: rows[row]! }]);
    const last = hidden.slice((row * 48 + 47) * size, (row * 48 + 48) * size);
    expect(largestDifference(vector!, normalise(last))).toBeLessThan(2e-3);
  }
  runner.destroy();
});
