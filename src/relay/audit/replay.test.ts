import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { NormalisedSampling } from '../../contract/normalised-request.ts';
import { adjustLogitsReference } from '../../gpu/adjust-logits.reference.ts';
import { logprobsReference, orderReference, sampleReference } from '../../gpu/sampler.reference.ts';
import { Random } from '../../gpu/testing/random.ts';
import type { TopOfPosition } from '../sample.ts';
import { judgeReplay, replayed } from './replay.ts';
import { rescoring } from './rescoring.ts';
import type { Told } from './scoring.ts';

const RUNS = { numRuns: process.env.SHOAL_LONG === '1' ? 5_000 : 200 };
const VOCABULARY = 100;
const STEPS = 10;
const PLACE = { seed: 5n, index: 2 };

const sampling = fc.record<Partial<NormalisedSampling>>({
  temperature: fc.oneof(fc.constantFrom(0, 1, 0.5, 2), fc.double({ min: 0.05, max: 3, noNaN: true })),
  topP: fc.oneof(fc.constant(1), fc.double({ min: 0.05, max: 1, noNaN: true })),
  topK: fc.constantFrom(0, 0, 1, 5, 19, 20, 40, 64, 65, 90),
  minP: fc.constantFrom(0, 0, 0.01, 0.2),
  presencePenalty: fc.constantFrom(0, 0.5),
});
/** Ids that a step's constraint allows. */
const allowed = fc.constantFrom(1, 2, 5, 19, 20, 30, 100);

/** Outputs of two nodes, whose logits are off by up to a part of the tolerance, under a constraint that allows so many ids a step. */
function play(given: Partial<NormalisedSampling>, allows: number, tolerance: number, seed: number) {
  const all: NormalisedSampling = { ...rescoring([1], [], VOCABULARY).sampling, ...given };
  const logits = Array.from({ length: STEPS }, (_, at) => new Random(seed * 100 + at).normals(VOCABULARY, 3));
  const noise = new Random(seed);
  const node = (off: number) => {
    const ids: number[] = [];
    const rows: TopOfPosition[] = [];
    for (const [at, row] of logits.entries()) {
      const own = row.map((logit) => logit + off * (2 * noise.uniform() - 1));
      const mask = new Uint32Array(4);
      // Neither the best nor the worst ids in particular; what may come follows from what came.
      for (let id = 0; id < allows; id++) {
        const bit = (id * 37 + at + (ids.at(-1) ?? 0)) % VOCABULARY;
        mask[bit >>> 5]! |= 1 << (bit & 31);
      }
      const counts = new Map(ids.map((id) => [id, ids.filter((one) => one === id).length]));
      const adjusted = adjustLogitsReference(own, { ...all, counts, mask, bannedIds: [] });
      const best = [...orderReference(adjusted).slice(0, 20)];
      const logprobs = logprobsReference(adjusted, all.temperature);
      rows.push({ ids: best, logprobs: Float32Array.from(best, (id) => logprobs[id]!) });
      ids.push(sampleReference(adjusted, { ...all, seed: PLACE.seed, sampleIndex: PLACE.index }, at));
    }
    return { ids, rows, ended: false } satisfies Told;
  };
  return { maker: node(0), auditor: node(0.45 * tolerance), sampling: all };
}

const made = (output: readonly number[], all: NormalisedSampling) => ({
  ...{ prompt: [1], output, sampling: all },
  ...PLACE,
});
const WHOLE = { from: 0, to: STEPS };

test('what an honest node made never differs, whatever constraint it was made by', () => {
  fc.assert(
    fc.property(
      sampling,
      allowed,
      fc.constantFrom(0.01, 0.1, 0.6),
      fc.nat(10_000),
      (given, allows, tolerance, seed) => {
        const { maker, auditor, sampling: all } = play(given, allows, tolerance, seed);
        const { differing, judged, open } = judgeReplay(made(maker.ids, all), WHOLE, auditor, VOCABULARY, tolerance);
        expect(differing).toBe(0);
        expect(judged + open).toBe(STEPS);
      },
    ),
    RUNS,
  );
});

test('another id than a step drew fails the sample, under a constraint too', () => {
  const verdicts = { passes: 0, fails: 0, open: 0 };
  for (let seed = 0; seed < 200; seed++) {
    const given = { temperature: [0, 1, 0.7][seed % 3]!, topP: seed % 2 ? 0.9 : 1 };
    const { maker, auditor, sampling: all } = play(given, [5, 30, 100][seed % 3]!, 0.01, seed);
    const lie = maker.ids.map((id, at) => (at < seed % STEPS ? id : (id + 7) % VOCABULARY));
    verdicts[judgeReplay(made(lie, all), WHOLE, auditor, VOCABULARY, 0.01).verdict]++;
  }
  expect(verdicts.fails).toBeGreaterThan(190);
});

test('an output that goes on where its constraint ends differs', () => {
  const { maker, sampling: all } = play({ temperature: 1 }, 5, 0, 3);
  const ended = { ids: maker.ids.slice(0, 4), rows: maker.rows.slice(0, 4), ended: true };
  const judge = (told: Told) => judgeReplay(made(maker.ids, all), WHOLE, told, VOCABULARY, 0.01);
  expect(judge(ended)).toMatchObject({ judged: 5, differing: 1, open: 5, verdict: 'fails' });
  // One that had no room for more says nothing of what came after.
  expect(judge({ ...ended, ended: false })).toMatchObject({ judged: 4, differing: 0, open: 6, verdict: 'passes' });
});

test('a replay is the request, from a place in its output on, with its seed and index', () => {
  const request = { ...rescoring([1, 2], [], VOCABULARY), constraint: { kind: 'regex', text: 'a+' } as const, n: 3 };
  const output = Array.from({ length: 100 }, (_, at) => at);
  const job = replayed(request, { ...made(output, request.sampling), index: 2 }, VOCABULARY, () => 0.75).newJob(7n);
  expect(job.seed).toBe(PLACE.seed);
  expect(job.samples).toMatchObject([{ index: 2, ids: output.slice(0, 39) }]);
  expect(job.samples[0]!.credit).toBeGreaterThan(39);
  expect(job.request).toMatchObject({
    ...{ inputIds: [1, 2], constraint: { text: 'a+' }, n: 1, topLogprobs: 20 },
    sampling: { maxNewTokens: 39 + 48, seed: PLACE.seed },
  });
  const first = replayed(request, made(output, request.sampling), VOCABULARY, () => 0.2).newJob(8n);
  expect(first.samples[0]!.ids).toEqual([]);
});
