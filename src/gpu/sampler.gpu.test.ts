import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogitsEntry } from './pack-step.ts';
import {
  argmaxReference,
  drawInteger,
  FLOAT_MAX,
  inverseCdfReference,
  keptReference,
  logprobsReference,
  orderReference,
  sampleReference,
} from './sampler.reference.ts';
import { RESULT_WORDS, Sampler } from './sampler.ts';
import { GREEDY_ENTRY, KernelBench } from './testing/kernel-bench.ts';
import { Random } from './testing/random.ts';
import { readTop } from './top-logprobs.ts';

const VOCABULARIES = [32, 512, 513, 49_152, 151_936];
const TILE = 8;

let bench: KernelBench;
beforeAll(async () => {
  bench = await KernelBench.open();
});
afterAll(() => bench.close());

interface Drawn {
  readonly id: number;
  readonly nonFinite: boolean;
  readonly logprob: number;
  readonly top: { readonly id: number; readonly logprob: number }[];
}

/** Runs entries over logits; entry i takes row i modulo the number of rows, of which there are at most 8. */
async function sample(rows: readonly Float32Array[], entries: readonly Partial<LogitsEntry>[], lastIds?: GPUBuffer) {
  const vocabulary = rows[0]!.length;
  const scratch = new Float32Array(TILE * vocabulary);
  for (let i = 0; i < TILE; i++) scratch.set(rows[i % rows.length]!, i * vocabulary);
  let topAt = 0;
  const packed = entries.map((entry) => {
    const whole = { ...GREEDY_ENTRY, ...entry, topAt };
    topAt += whole.top;
    return whole;
  });
  const one = { slot: 0, tokens: Uint32Array.of(0), startPosition: 0, blockTable: [0] };
  const { buffer: step } = await bench.step([one], packed);
  const sampler = await Sampler.create(
    bench.gpu,
    {
      vocabulary,
      tileRows: TILE,
      maxLogitsRows: entries.length,
      maxTop: Math.max(1, topAt),
      maxIds: 1,
      maxLogprobIds: 1,
    },
    {
      step,
      logits: await bench.buffer(scratch),
      lastIds: lastIds ?? (await bench.zeros(64)),
      slotIds: await bench.zeros(128),
    },
  );
  await bench.run((pass) => {
    for (let tile = 0; tile * TILE < entries.length; tile++) {
      const some = packed.slice(tile * TILE, (tile + 1) * TILE);
      sampler.encode(pass, tile, some);
    }
  });
  const words = await bench.readWords(sampler.results, entries.length * RESULT_WORDS);
  const top = await bench.readWords(sampler.top, 2 * Math.max(1, topAt));
  const floats = new Float32Array(words.buffer);
  for (const buffer of [sampler.results, sampler.top]) bench.gpu.buffers.free(buffer);
  return packed.map(
    (entry, i): Drawn => ({
      id: words[i * RESULT_WORDS]!,
      nonFinite: words[i * RESULT_WORDS + 1] === 1,
      logprob: floats[i * RESULT_WORDS + 2]!,
      top: topOf(readTop(top, entry.topAt, entry.top)),
    }),
  );
}

function topOf({ ids, logprobs }: ReturnType<typeof readTop>): Drawn['top'] {
  return [...ids].map((id, i) => ({ id, logprob: logprobs[i]! }));
}

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
    const drawn = await sample(
      rows,
      rows.map(() => ({})),
    );
    expect(drawn.map(({ id }) => id)).toEqual(rows.map(argmaxReference));
    expect(drawn.map(({ id }) => id).slice(1)).toEqual([last - 1, 17, last, 0, last]);
    expect(drawn.every(({ nonFinite }) => !nonFinite)).toBe(true);
  });

  test('NaN and infinities are seen wherever they are, in their row only', async () => {
    const random = new Random(vocabulary + 1);
    const rows = Array.from({ length: 8 }, () => randomLogits(random, vocabulary));
    rows[1]![0] = Number.NaN;
    rows[3]![vocabulary - 1] = Number.POSITIVE_INFINITY;
    rows[4]![vocabulary >> 1] = Number.NEGATIVE_INFINITY;
    rows[6]![7] = Number.NaN;
    const entries = rows.map((_, i) => ({ sampled: i % 2 === 0, temperature: 1 }));
    const drawn = await sample(rows, entries);
    expect(drawn.map(({ nonFinite }) => nonFinite)).toEqual([false, true, false, true, true, false, true, false]);
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
      const uniform = drawInteger(params.seed, params.outputPosition, params.sampleIndex) / 2 ** 24;
      const expected = inverseCdfReference(logprobsReference(logits, params.temperature), kept, uniform);
      // Within rounding of a token's edge either neighbour is right; the law needs only the same adapter's same bits.
      if (Math.min(uniform - expected.from, expected.to - uniform) < 1e-5) close++;
      else expect(drawn[i]!.id).toBe(expected.id);
    });
    expect(close).toBeLessThan(entries.length / 2);
  });
});

test('top logprobs up to the whole vocabulary', async () => {
  const logits = new Random(1).normals(32);
  logits[30] = logits[2]!;
  const [drawn] = await sample([logits], [{ top: 32 }]);
  expect(drawn!.top.map(({ id }) => id)).toEqual([...orderReference(logits)]);
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
    const entries = Array.from({ length: 5 * TILE }, (_, i) => ({ sampled: true, temperature: 1, outputPosition: i }));
    const drawn = await sample(
      Array.from({ length: TILE }, () => logits),
      entries,
    );
    const expected = entries.map((entry) =>
      sampleReference(logits, { ...GREEDY_ENTRY, ...entry }, entry.outputPosition),
    );
    expect(drawn.map(({ id }) => id)).toEqual(expected);
  },
);

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

test.each([
  { temperature: 0.8, topK: 24, topP: 0.98, minP: 0 },
  { temperature: 1, topK: 0, topP: 1, minP: 0 },
  { temperature: 1.5, topK: 0, topP: 1, minP: 0.05 },
  { temperature: 1, topK: 0, topP: 0.9, minP: 0 },
])('draws follow the distribution (chi-square): %j', async (filters) => {
  const logits = new Random(12).normals(32, 1.5);
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
    for (const { id } of await sample([logits], entries)) counts.set(id, (counts.get(id) ?? 0) + 1);
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
