import { afterAll, beforeAll, expect, test } from 'vitest';
import { keptReference, logprobsReference } from './sampler.reference.ts';
import { KernelBench } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';
import { sampleRows } from './testing/sample-rows.ts';

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

/** The head alone, then rows of which most is outside of it: one draw, several, a search. */
test.each([
  { vocabulary: 32, deviation: 1.5, temperature: 0.8, topK: 24, topP: 0.98, minP: 0 },
  { vocabulary: 32, deviation: 1.5, temperature: 1, topK: 0, topP: 1, minP: 0 },
  { vocabulary: 32, deviation: 1.5, temperature: 1.5, topK: 0, topP: 1, minP: 0.05 },
  { vocabulary: 32, deviation: 1.5, temperature: 1, topK: 0, topP: 0.9, minP: 0 },
  { vocabulary: 150, deviation: 0.5, temperature: 1, topK: 0, topP: 1, minP: 0 },
  { vocabulary: 150, deviation: 0.5, temperature: 1, topK: 0, topP: 0.6, minP: 0 },
  { vocabulary: 150, deviation: 0.5, temperature: 1, topK: 0, topP: 0.95, minP: 0.3 },
  { vocabulary: 150, deviation: 0.5, temperature: 1, topK: 90, topP: 1, minP: 0 },
  { vocabulary: 280, deviation: 0, temperature: 1, topK: 0, topP: 0.5, minP: 0 },
])('draws follow the distribution (chi-square): %j', async ({ vocabulary, deviation, ...filters }) => {
  const logits = new Random(12).normals(vocabulary, deviation);
  const params = { ...filters, seed: 0n, sampleIndex: 0 };
  const kept = keptReference(logits, params);
  const logprobs = logprobsReference(logits, params.temperature);
  const mass = kept.reduce((sum, id) => sum + Math.exp(logprobs[id]!), 0);
  const counts = new Map<number, number>();
  const draws = 2048;
  for (let batch = 0; batch < draws; batch += 512) {
    const entries = Array.from({ length: 512 }, (_, i) => ({
      ...params,
      sampled: true,
      seed: 0x1234_5678_9abc_def0n,
      outputPosition: (batch + i) >> 1,
      sampleIndex: i & 1,
    }));
    for (const { id } of await sampleRows(bench, [logits], entries)) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  // Rare tokens share a bin, so that each bin expects at least five.
  let [rareCount, rareExpected, chi] = [0, 0, 0];
  let bins = 0;
  for (const id of kept) {
    const expected = (draws * Math.exp(logprobs[id]!)) / mass;
    const count = counts.get(id) ?? 0;
    counts.delete(id);
    if (expected < 5) {
      rareCount += count;
      rareExpected += expected;
    } else {
      chi += (count - expected) ** 2 / expected;
      bins++;
    }
  }
  if (rareExpected > 0) {
    chi += (rareCount - rareExpected) ** 2 / rareExpected;
    bins++;
  }
  expect(counts.size).toBe(0);
  expect(bins).toBeGreaterThan(8);
  // Wilson and Hilferty's approximation of the 99.9 % point of chi-square.
  const freedom = bins - 1;
  expect(chi).toBeLessThan(freedom * (1 - 2 / (9 * freedom) + 3.09 * Math.sqrt(2 / (9 * freedom))) ** 3);
});
