import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareScores, type Judgement, judgeSample } from './judge.ts';
import { rescoring } from './rescoring.ts';
import { settle } from './settle.ts';

const { sampling } = rescoring([], [], 100);
const told = (best: number) => ({
  ids: [best, ...Array.from({ length: 19 }, (_, at) => (best + 1 + at) % 100)],
  logprobs: Float32Array.from({ length: 20 }, (_, at) => -0.1 - at),
});
const greedy = (output: number[]) => ({ prompt: [1], output, sampling, seed: 1n, index: 0 });

test('a sample fails when over 2 % of its judged steps differ', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), fc.nat(10), (length, wrong) => {
      const right = Array.from({ length }, (_, at) => at % 50);
      const output = right.map((id, at) => (at < wrong ? id + 40 : id));
      const { judged, differing, verdict } = judgeSample(greedy(output), right.map(told), 100, 0.1);
      expect([judged, differing]).toEqual([length, Math.min(wrong, length)]);
      expect(verdict).toBe(differing > 0.02 * length ? 'fails' : 'passes');
    }),
  );
});

test('two that score within the tolerance are alike, and one that tells other ids is not', () => {
  const one = [told(3), told(4)];
  const near = one.map(({ ids, logprobs }) => ({ ids, logprobs: logprobs.map((value) => value - 0.19) }));
  expect(compareScores(one, near, 0.2).verdict).toBe('passes');
  expect(compareScores(one, near, 0.18).verdict).toBe('fails');
  expect(compareScores(one, [told(3), told(60)], 0.2).verdict).toBe('fails');
});

test.each<[Judgement['verdict'], Judgement['verdict'], ReturnType<typeof settle>]>([
  ['fails', 'passes', 'maker'],
  ['fails', 'fails', 'maker'],
  ['passes', 'fails', 'auditor'],
  ['passes', 'passes', undefined],
  ['open', 'fails', undefined],
])('third %s, its scores and the auditor’s %s: %s loses', (third, auditors, loser) => {
  const judgement = (verdict: Judgement['verdict']) => ({ judged: 9, differing: 0, open: 0, verdict });
  expect(settle(judgement(third), judgement(auditors))).toBe(loser);
});
