import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { NormalisedSampling } from '../../contract/normalised-request.ts';
import { adjustLogitsReference } from '../../gpu/adjust-logits.reference.ts';
import { logprobsReference, orderReference, sampleReference } from '../../gpu/sampler.reference.ts';
import { Random } from '../../gpu/testing/random.ts';
import { judgeStep, type StepVerdict } from './redraw.ts';
import { toldRow } from './told-row.ts';

const RUNS = { numRuns: process.env.SHOAL_LONG === '1' ? 20_000 : 800 };

const PLAIN: NormalisedSampling = {
  ...{ temperature: 1, topP: 1, topK: 0, minP: 0, seed: undefined, maxNewTokens: 8 },
  ...{ stopTokenIds: [], stopStrings: [], skipSpecialTokens: true },
  ...{ frequencyPenalty: 0, presencePenalty: 0, repetitionPenalty: 1, minNewTokens: 0, maskedStopIds: [], biases: [] },
};

const filters = fc.record({
  temperature: fc.oneof(fc.constantFrom(0, 1, 0.5, 2), fc.double({ min: 0.05, max: 3, noNaN: true })),
  topP: fc.oneof(fc.constant(1), fc.double({ min: 0.05, max: 1, noNaN: true })),
  topK: fc.constantFrom(0, 0, 1, 5, 19, 20, 21, 40, 64, 65, 90),
  minP: fc.constantFrom(0, 0, 0, 0.01, 0.2),
});
const adjustments = fc.record({
  frequencyPenalty: fc.constantFrom(0, 0.5, 2, -0.3),
  presencePenalty: fc.constantFrom(0, 0.25, -1),
  repetitionPenalty: fc.constantFrom(1, 1, 1.2, 0.8),
  minNewTokens: fc.constantFrom(0, 4),
  maskedStopIds: fc.subarray([0, 3, 50, 99]),
  biases: fc.uniqueArray(fc.record({ id: fc.nat(99), bias: fc.double({ min: -5, max: 5, noNaN: true }) }), {
    selector: ({ id }) => id,
    maxLength: 3,
  }),
});
const step = fc.record({
  seed: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  sampleIndex: fc.nat(3),
  output: fc.array(fc.nat(99), { maxLength: 6 }),
  logits: fc.nat(),
  spread: fc.constantFrom(0.5, 2, 6),
  vocabulary: fc.constantFrom(12, 20, 40, 100),
  tolerance: fc.constantFrom(0.001, 0.02, 0.3),
  adjusted: fc.boolean(),
  filters,
  adjustments,
});

interface Step {
  readonly seed: bigint;
  readonly sampleIndex: number;
  readonly output: readonly number[];
  /** Seed of the logits, and their standard deviation. */
  readonly logits: number;
  readonly spread: number;
  readonly vocabulary: number;
  readonly tolerance: number;
  readonly adjusted: boolean;
  readonly filters: Partial<NormalisedSampling>;
  readonly adjustments: Partial<NormalisedSampling> & Pick<NormalisedSampling, 'biases' | 'maskedStopIds'>;
}

/** A step as one node drew it, and as it is judged by another's logprobs, each off by up to the tolerance. */
function drawn(one: Step): { id: number; judge: (id: number) => StepVerdict } {
  const { vocabulary, tolerance, seed, sampleIndex } = one;
  const output = one.output.filter((id) => id < vocabulary);
  const within = { id: (id: number) => id < vocabulary };
  const sampling: NormalisedSampling = {
    ...PLAIN,
    ...one.filters,
    ...(one.adjusted ? one.adjustments : {}),
    biases: one.adjusted ? one.adjustments.biases.filter(({ id }) => within.id(id)) : [],
    maskedStopIds: one.adjusted ? one.adjustments.maskedStopIds.filter(within.id) : [],
  };
  const random = new Random(one.logits);
  const logits = random.normals(vocabulary, one.spread);
  const counts = new Map<number, number>();
  for (const id of output) counts.set(id, (counts.get(id) ?? 0) + 1);
  const bannedIds = output.length < sampling.minNewTokens ? sampling.maskedStopIds : [];
  const adjusted = adjustLogitsReference(logits, { ...sampling, counts, mask: undefined, bannedIds });
  const id = sampleReference(adjusted, { ...sampling, seed, sampleIndex }, output.length);

  // A tenth less: a row's own logprobs move with its sum.
  const other = logits.map((logit) => logit + 0.45 * tolerance * (2 * random.uniform() - 1));
  const ids = [...orderReference(other).slice(0, 20)];
  const logprobs = logprobsReference(other, 1);
  const told = { ids, logprobs: Float32Array.from(ids, (id) => logprobs[id]!) };
  const row = toldRow(told, { sampling, position: output.length, counts }, vocabulary);
  const place = { seed, sampleIndex, position: output.length };
  return { id, judge: (id) => (row ? judgeStep(row, id, sampling, place, tolerance) : 'open') };
}

test('what a step drew never differs, whatever it was drawn by, while logprobs are within the tolerance', () => {
  fc.assert(
    fc.property(step, (one) => {
      const { id, judge } = drawn(one);
      expect(judge(id)).not.toBe('differs');
    }),
    RUNS,
  );
});

test('most steps of plain draws are judged, and what they did not draw differs', () => {
  const random = new Random(7);
  const count: Record<StepVerdict, number> = { agrees: 0, differs: 0, open: 0 };
  const wrong: Record<StepVerdict, number> = { agrees: 0, differs: 0, open: 0 };
  for (let run = 0; run < 800; run++) {
    const { id, judge } = drawn({
      ...{ seed: BigInt(run), sampleIndex: 0, output: [], logits: run, spread: 3, vocabulary: 100, tolerance: 0.02 },
      ...{ adjusted: false, adjustments: PLAIN },
      filters: {
        temperature: [0, 0.7, 1, 1.3][run % 4]!,
        topP: run % 3 === 0 ? 0.9 : 1,
        topK: run % 5 === 0 ? 5 : 0,
        minP: 0,
      },
    });
    count[judge(id)]++;
    wrong[judge((id + 1 + Math.floor(random.uniform() * 99)) % 100)]++;
  }
  expect(count.differs).toBe(0);
  expect(count.agrees).toBeGreaterThan(600);
  expect(wrong.differs).toBeGreaterThan(600);
  expect(wrong.agrees).toBeLessThan(16);
});

test.each<[string, Partial<NormalisedSampling>, number[], StepVerdict]>([
  ['greedy, the best', { temperature: 0 }, [], 'agrees'],
  ['greedy, penalised under the second', { temperature: 0, presencePenalty: 2 }, [4], 'differs'],
  ['greedy, biased over all', { temperature: 0, biases: [{ id: 9, bias: 5 }] }, [], 'differs'],
  ['greedy, another that is not told may be best', { temperature: 0, biases: [{ id: 70, bias: 9 }] }, [], 'open'],
  ['greedy, its sign is not told', { temperature: 0, repetitionPenalty: 1.5 }, [4], 'open'],
  ['greedy, banned', { temperature: 0, minNewTokens: 3, maskedStopIds: [4] }, [], 'differs'],
  ['the only one of top k', { topK: 1 }, [], 'agrees'],
  ['the only one of min p', { minP: 0.9 }, [], 'agrees'],
  ['the only one of top p', { topP: 0.1 }, [], 'agrees'],
])('%s', (_, sampling, output, verdict) => {
  // 4 is best by 1.
  const logits = Float32Array.from({ length: 100 }, (_, id) => (id === 4 ? 6 : id === 9 ? 5 : id / 100));
  const ids = [...orderReference(logits).slice(0, 20)];
  const logprobs = logprobsReference(logits, 1);
  const told = { ids, logprobs: Float32Array.from(ids, (id) => logprobs[id]!) };
  const all = { ...PLAIN, ...sampling };
  const counts = new Map(output.map((id) => [id, 1]));
  const row = toldRow(told, { sampling: all, position: output.length, counts }, 100);
  const place = { seed: 1n, sampleIndex: 0, position: output.length };
  expect(row ? judgeStep(row, 4, all, place, 0.02) : 'open').toBe(verdict);
});
