import type { NormalisedSampling } from '../../contract/normalised-request.ts';
import type { TopOfPosition } from '../sample.ts';
import { judgeStep } from './redraw.ts';
import { toldRow } from './told-row.ts';

/** Parts of a sample's judged steps that may differ before it fails. */
export const MOST_DIFFERING = 0.02;

/** A finished sample, as its node made it. */
export interface MadeSample {
  readonly prompt: readonly number[];
  readonly output: readonly number[];
  readonly sampling: NormalisedSampling;
  readonly seed: bigint;
  /** Of its request's samples. */
  readonly index: number;
}

export interface Judgement {
  /** Steps that agree or differ. */
  readonly judged: number;
  readonly differing: number;
  /** Steps that what is told doesn't judge. */
  readonly open: number;
  /** 'open' where no step could be judged. */
  readonly verdict: 'passes' | 'fails' | 'open';
}

/** Redraws a sample's steps from the best logprobs of each, `told`, as another node scored them. */
export function judgeSample(
  sample: MadeSample,
  told: readonly TopOfPosition[],
  vocabulary: number,
  tolerance: number,
): Judgement {
  const { output, sampling, seed, index } = sample;
  const counts = new Map<number, number>();
  const tally = { agrees: 0, differs: 0, open: 0 };
  output.forEach((id, position) => {
    const row = toldRow(told[position]!, { sampling, position, counts }, vocabulary);
    const place = { seed, sampleIndex: index, position };
    tally[row ? judgeStep(row, id, sampling, place, tolerance) : 'open']++;
    counts.set(id, (counts.get(id) ?? 0) + 1);
  });
  return judgement(tally.agrees + tally.differs, tally.differs, tally.open);
}

/**
 * Whether two nodes, honest ones of which lie within `tolerance`, scored the same sample alike: a step differs where one
 * tells a token's logprob and the other another, or leaves out what it would have to tell.
 */
export function compareScores(
  one: readonly TopOfPosition[],
  other: readonly TopOfPosition[],
  tolerance: number,
): Judgement {
  let differing = 0;
  one.forEach((told, at) => {
    if (!alike(told, other[at]!, tolerance) || !alike(other[at]!, told, tolerance)) differing++;
  });
  return judgement(one.length, differing, 0);
}

function alike(one: TopOfPosition, other: TopOfPosition, tolerance: number): boolean {
  const logprobs = new Map(other.ids.map((id, at) => [id, other.logprobs[at]!]));
  const lowest = other.logprobs.at(-1) ?? 0;
  return one.ids.every((id, at) => {
    const logprob = one.logprobs[at]!;
    const its = logprobs.get(id);
    return its === undefined ? logprob <= lowest + tolerance : Math.abs(its - logprob) <= tolerance;
  });
}

export function judgement(judged: number, differing: number, open: number): Judgement {
  const verdict = judged === 0 ? 'open' : differing > MOST_DIFFERING * judged ? 'fails' : 'passes';
  return { judged, differing, open, verdict };
}
