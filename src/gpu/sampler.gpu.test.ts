import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Gpu } from './gpu.ts';
import type { LogitsEntry } from './pack-step.ts';
import {
  argmaxReference,
  FLOAT_MAX,
  keptReference,
  logprobsReference,
  orderReference,
  sampleReference,
} from './sampler.reference.ts';
import { Sampler } from './sampler.ts';
import { GREEDY_ENTRY, KernelBench } from './testing/kernel-bench.ts';
import { possibleDraws } from './testing/possible-draws.ts';
import { Random } from './testing/random.ts';
import { SAMPLE_TILE, sampleRows } from './testing/sample-rows.ts';

const VOCABULARIES = [32, 512, 513, 49_152, 151_936];

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

const sample = (rows: readonly Float32Array[], entries: readonly Partial<LogitsEntry>[], lastIds?: GPUBuffer) =>
  sampleRows(bench, rows, entries, lastIds);

/** Logits with a spread like a model's. */
const randomLogits = (random: Random, vocabulary: number) => random.normals(vocabulary, 3);

describe.each(VOCABULARIES)('a vocabulary of %i', (vocabulary) => {
  test('greedy: the best logit, ties to the lowest id', async () => {
    const random = new Random(vocabulary);
    const last = vocabulary - 1;
    const tied = new Float32Array(vocabulary).fill(-2);
    tied.set([1, 1], last - 1);
    const signed = new Float32Array(vocabulary).fill(-1);
    signed.set([-0, 0], 17);
    const negative = new Float32Array(vocabulary).fill(-3e38);
    negative[last] = -2.9e38;
    const rows = [
      randomLogits(random, vocabulary),
      tied,
      signed,
      negative,
      new Float32Array(vocabulary).fill(3e38),
      new Float32Array(vocabulary).map((_, i) => (i === last ? 1e-30 : -i)),
    ];
    // Rows that are not weighed have a kernel of their own in a large vocabulary.
    for (const logprob of [false, true]) {
      const drawn = await sample(
        rows,
        rows.map(() => ({ logprob })),
      );
      expect(drawn.map(({ id }) => id)).toEqual(rows.map(argmaxReference));
      expect(drawn.map(({ id }) => id).slice(1)).toEqual([last - 1, 17, last, 0, last]);
      expect(drawn.every(({ nonFinite }) => !nonFinite)).toBe(true);
    }
  });

  test('NaN and infinities are seen wherever they are, in their row only', async () => {
    const random = new Random(vocabulary + 1);
    const rows = Array.from({ length: 8 }, () => randomLogits(random, vocabulary));
    rows[1]![0] = Number.NaN;
    rows[3]![vocabulary - 1] = Number.POSITIVE_INFINITY;
    rows[4]![vocabulary >> 1] = Number.NEGATIVE_INFINITY;
    rows[6]![7] = Number.NaN;
    for (const sampled of [true, false]) {
      const entries = rows.map((_, i) => ({ sampled: sampled && i % 2 === 0, temperature: 1 }));
      const drawn = await sample(rows, entries);
      expect(drawn.map(({ nonFinite }) => nonFinite)).toEqual([false, true, false, true, true, false, true, false]);
    }
  });

  test('logprob of the id and the best logprobs, greedy and at a temperature', async () => {
    const random = new Random(vocabulary + 2);
    const rows = [randomLogits(random, vocabulary), randomLogits(random, vocabulary)];
    // Ties in the middle of the best ones.
    const order = orderReference(rows[1]!);
    for (let i = 3; i < 9; i++) rows[1]![order[i]!] = rows[1]![order[3]!]!;
    const entries = [
      { logprob: true, top: 5 },
      { logprob: true, top: 7 },
      { logprob: true, top: 1, sampled: true, temperature: 0.7, seed: 5n },
      { logprob: true, top: 20, sampled: true, temperature: 2, seed: 6n },
      { logprob: false, top: 3, sampled: true, temperature: 0.1, topK: 1 },
      { logprob: true, top: 0, sampled: true, temperature: 1, topP: 0.5 },
    ];
    const drawn = await sample(rows, entries);
    entries.forEach((entry, i) => {
      const logits = rows[i % 2]!;
      const logprobs = logprobsReference(logits, entry.temperature ?? 0);
      const { id, logprob, top } = drawn[i]!;
      if (entry.logprob) expect(Math.abs(logprob - logprobs[id]!)).toBeLessThan(1e-4);
      expect(top.map((one) => one.id)).toEqual([...orderReference(logits).slice(0, entry.top)]);
      for (const one of top) expect(Math.abs(one.logprob - logprobs[one.id]!)).toBeLessThan(1e-4);
    });
  });

  test('draws invert the running sum of the kept tokens', async () => {
    const random = new Random(vocabulary + 3);
    const filters = [
      {},
      { topK: 5 },
      { topK: 40, topP: 0.9 },
      { topP: 0.95 },
      { minP: 0.05 },
      { topK: 100, topP: 0.8, minP: 0.001 },
      { topP: 0.001 },
      { topK: vocabulary, topP: 1, minP: 1 },
    ];
    const rows = [randomLogits(random, vocabulary), new Float32Array(vocabulary).map((_, i) => (i * 7) % 3)];
    const entries = filters.flatMap((filter, f) =>
      (vocabulary > 1000 ? [1.2] : [0.6, 1, 1.7]).flatMap((temperature, t) =>
        [0, 1].map((draw) => ({
          sampled: true,
          temperature,
          seed: BigInt(f * 100 + t) | (77n << 32n),
          outputPosition: 3 + draw,
          sampleIndex: draw,
          ...filter,
        })),
      ),
    );
    const drawn = await sample(rows, entries);
    let close = 0;
    entries.forEach((entry, i) => {
      const logits = rows[i % 2]!;
      const params = { ...GREEDY_ENTRY, ...entry };
      const kept = keptReference(logits, params);
      expect(kept).toContain(drawn[i]!.id);
      // Within rounding of a token's edge either neighbour is right; the law needs only the same adapter's same bits.
      if (drawn[i]!.id !== sampleReference(logits, params, params.outputPosition)) close++;
      expect([...possibleDraws(logits, params)]).toContain(drawn[i]!.id);
    });
    expect(close).toBeLessThan(entries.length / 4);
  });
});

test('top logprobs up to the whole vocabulary', async () => {
  const logits = new Random(1).normals(32);
  logits[30] = logits[2]!;
  const [drawn] = await sample([logits], [{ top: 32 }]);
  expect(drawn!.top.map(({ id }) => id)).toEqual([...orderReference(logits)]);
});

test.each([
  { name: 'huge, all others masked', best: 2e38, rest: -FLOAT_MAX },
  { name: 'huge, far above the others', best: 2e38, rest: -3e38 },
  { name: 'among those that are no normal floats', best: 3e-39, rest: 1e-39 },
])('as many top logprobs as asked for where the best is $name', async ({ best, rest }) => {
  // The first, and the second with more than the head has, are searched for by one workgroup; the last by buckets.
  for (const { vocabulary, top } of [
    { vocabulary: 255, top: 30 },
    { vocabulary: 4100, top: 20 },
    { vocabulary: 4100, top: 21 },
  ]) {
    const logits = new Float32Array(vocabulary).fill(rest);
    logits[77] = best;
    logits[90] = best * 0.75;
    const entry = { sampled: true, temperature: 1, top };
    const [drawn] = await sample([logits], [entry]);
    // What a shader may take for zero, it may take for equal.
    const order = orderReference(best < 1e-38 ? new Float32Array(vocabulary) : logits);
    expect(drawn!.top.map(({ id }) => id)).toEqual([...order.slice(0, top)]);
  }
});

test('a logprob of a masked token is the smallest finite float', async () => {
  const logits = Float32Array.from({ length: 32 }, (_, i) => (i === 9 ? 5 : -3e38));
  const [cold, warm] = await sample(
    [logits],
    [
      { top: 2, logprob: true, sampled: true, temperature: 0.01 },
      { top: 2, logprob: true },
    ],
  );
  expect(cold!.id).toBe(9);
  expect(cold!.logprob).toBe(0);
  expect(cold!.top[1]!.logprob).toBe(-FLOAT_MAX);
  expect(warm!.top[1]!.logprob / -3e38).toBeCloseTo(1, 5);
});

test('equal logits: top k and top p keep the lowest ids', async () => {
  const logits = new Float32Array(513).fill(1.5);
  const entries = Array.from({ length: 128 }, (_, i) => ({
    sampled: true,
    temperature: 1,
    seed: BigInt(i),
    ...(i < 64 ? { topK: 3 } : { topP: 0.00585 }),
  }));
  const drawn = await sample([logits], entries);
  // 0.00585 × 513 is 3.001: the fourth token is the one that crosses.
  expect(new Set(drawn.slice(0, 64).map(({ id }) => id))).toEqual(new Set([0, 1, 2]));
  expect(new Set(drawn.slice(64).map(({ id }) => id))).toEqual(new Set([0, 1, 2, 3]));
});

test.each([1000, 20_000])('a row gives the same in any place and company, vocabulary %i', async (vocabulary) => {
  const random = new Random(9);
  const rows = Array.from({ length: 8 }, () => randomLogits(random, vocabulary));
  const entry = { sampled: true, temperature: 0.9, topP: 0.9, logprob: true, top: 4, seed: 3n, outputPosition: 7 };
  const [alone] = await sample([rows[5]!], [entry]);
  const together = await sample(
    rows,
    rows.map((_, i) => (i === 5 ? entry : { ...entry, temperature: 1 + i, topK: i, top: i % 3 })),
  );
  expect(together[5]).toEqual(alone);
});

test.each([32, 61])(
  'the last row of a tile is its own where another tile follows, vocabulary %i',
  async (vocabulary) => {
    // Nearly flat, the best id last.
    const logits = Float32Array.from({ length: vocabulary }, (_, i) => (i === vocabulary - 1 ? 0.1 : 0));
    const entries = Array.from({ length: 5 * SAMPLE_TILE }, (_, i) => ({
      sampled: true,
      temperature: 1,
      outputPosition: i,
    }));
    const drawn = await sample(
      Array.from({ length: SAMPLE_TILE }, () => logits),
      entries,
    );
    const expected = entries.map((entry) =>
      sampleReference(logits, { ...GREEDY_ENTRY, ...entry }, entry.outputPosition),
    );
    expect(drawn.map(({ id }) => id)).toEqual(expected);
  },
);

test('all but best ids are awaited while they are compiled, and what more than a head is drawn from longer', async () => {
  const gpu = new Gpu(bench.gpu.device, { late: true });
  const vocabulary = 300;
  const shape = { vocabulary, tileRows: 1, maxLogitsRows: 1, maxTop: 300, maxIds: 1, maxLogprobIds: 1 };
  const zeros = () => bench.zeros(512);
  const buffers = { step: await zeros(), logits: await zeros(), lastIds: await zeros(), slotIds: await zeros() };
  const sampler = await Sampler.create(gpu, { ...shape, smallVocabulary: 0 }, buffers);
  const plain = { sampled: false, topK: 0, logprob: false, top: 0 };
  const draws = [
    { ...plain, sampled: true },
    { ...plain, sampled: true, topK: 64, top: 20 },
    { ...plain, sampled: true, topK: 300, top: 20 },
    { ...plain, topK: 65, top: 64 },
    { ...plain, logprob: true },
    { ...plain, idLogprobs: true },
  ];
  const searches = [
    { ...plain, sampled: true, topK: 65 },
    { ...plain, sampled: true, top: 21 },
    { ...plain, top: 65 },
  ];
  const awaited = () => [plain, ...draws, ...searches].map((row) => sampler.awaits(row) !== undefined);
  expect(awaited()).toEqual([false, ...draws.map(() => true), ...searches.map(() => true)]);
  let settled = 0;
  for (const row of draws) void sampler.awaits(row)!.then(() => settled++);
  const due = sampler.awaits(searches[0]!);
  void sampler.awaits(draws[0]!)!.then(() => {
    expect(awaited()).toEqual([false, ...draws.map(() => false), ...searches.map(() => true)]);
    settled++;
  });
  expect(await gpu.compileLate()).toEqual([]);
  await due;
  expect(settled).toBe(draws.length + 1);
  expect(awaited()).not.toContain(true);
  gpu.destroy();
});

test('the slot keeps the id, where the row is its last', async () => {
  const random = new Random(10);
  const rows = Array.from({ length: 3 }, () => randomLogits(random, 64));
  const lastIds = await bench.buffer(new Uint32Array(64).fill(99));
  const drawn = await sample(
    rows,
    [
      { slot: 4, writesSlot: true },
      { slot: 6, writesSlot: true, sampled: true, temperature: 1 },
      { slot: 7, writesSlot: false },
    ],
    lastIds,
  );
  const kept = await bench.readWords(lastIds, 8);
  expect([...kept]).toEqual([99, 99, 99, 99, drawn[0]!.id, 99, drawn[1]!.id, 99]);
});
