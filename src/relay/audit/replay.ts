import { HEAD } from '../../contract/draw-uniform.ts';
import type { NormalisedRequest } from '../../contract/normalised-request.ts';
import { Job } from '../job.ts';
import type { TopOfPosition } from '../sample.ts';
import { compareScores, type Judgement, judgement, type MadeSample } from './judge.ts';
import { judgeStep } from './redraw.ts';
import type { Scoring, Told } from './scoring.ts';
import { adjustedRow } from './told-row.ts';
import { toleranceOf } from './tolerance.ts';

/** Steps of one replay: of so few, one that differs is over the part that may. */
const MOST_STEPS = 48;

/**
 * A stretch of the output made again, as after a failover: with the same constraint, embeddings and seed, from the tokens before
 * it on, so that each step's best logprobs are told as they were drawn from, masks and all. From the first id on that comes out
 * another, the steps are of another text, and are not judged. `random`, in [0, 1), says where it begins.
 */
export function replayed(
  request: NormalisedRequest,
  made: MadeSample,
  vocabulary: number,
  random: () => number,
): Scoring {
  const { output } = made;
  // An output whose constraint was not kept to has no place to begin in but the first.
  const from = random() < 0.5 ? 0 : Math.floor(random() * Math.max(1, output.length - MOST_STEPS + 1));
  const to = Math.min(output.length, from + MOST_STEPS);
  const { repetitionPenalty: repetition } = made.sampling;
  // It multiplies or divides a logit, and with it what two nodes' logits differ by, also in what all of a row share.
  const widened = repetition === 1 ? 1 : 2 * Math.max(repetition, 1 / repetition);
  return {
    toleranceOf,
    newJob: (id) =>
      new Job(id, replayRequest(request, made, to, vocabulary), { index: made.index, ids: output.slice(0, from) }),
    read(job) {
      if (job.outcome !== 'complete') return undefined;
      const [sample] = job.samples;
      const rows = sample!.details.slice(from).map((details) => details?.top);
      if (!rows.every((top): top is TopOfPosition => top !== undefined)) return undefined;
      return { rows, ids: sample!.ids.slice(from), ended: sample!.finish?.reason === 'stop' };
    },
    judge: (told, tolerance) => judgeReplay(made, { from, to }, told, vocabulary, widened * tolerance),
    compare(one, other, tolerance) {
      const same = alikeUntil(one.ids, other.ids);
      const off = (widened * tolerance) / (made.sampling.temperature || 1);
      return compareScores(one.rows.slice(0, same + 1), other.rows.slice(0, same + 1), off);
    },
  };
}

function replayRequest(
  request: NormalisedRequest,
  made: MadeSample,
  to: number,
  vocabulary: number,
): NormalisedRequest {
  return {
    ...request,
    sampling: { ...request.sampling, seed: made.seed, maxNewTokens: to },
    ...{ requestId: '', n: 1, stream: false, streamInterval: 1, detailsInComplete: true },
    ...{ outputLogprobs: true, topLogprobs: Math.min(HEAD, vocabulary), logprobIds: [], logprobStart: undefined },
    ...{ hiddenStates: false, bytesPerToken: 0, promptBytes: 0, rank: undefined, priority: 0 },
  };
}

/** Redraws the steps [from, to) of a sample, as far as another node's text is the same. */
export function judgeReplay(
  { output, sampling, seed, index }: MadeSample,
  { from, to }: { readonly from: number; readonly to: number },
  { rows, ids, ended }: Told,
  vocabulary: number,
  tolerance: number,
): Judgement {
  const made = output.slice(from, to);
  const same = alikeUntil(made, ids);
  const tally = { agrees: 0, differs: 0, open: 0 };
  // What is told of a drawn token is at its temperature already, and so are two nodes' differences.
  const { temperature } = sampling;
  const told =
    temperature === 0
      ? { sampling, off: tolerance }
      : { sampling: { ...sampling, temperature: 1 }, off: tolerance / temperature };
  rows.slice(0, Math.min(same + 1, made.length)).forEach((row, at) => {
    const place = { seed, sampleIndex: index, position: from + at };
    tally[judgeStep(adjustedRow(row, vocabulary), made[at]!, told.sampling, place, told.off)]++;
  });
  // The same text was at its end there, and went on.
  if (ended && same === ids.length && same < made.length) tally.differs++;
  const judged = tally.agrees + tally.differs;
  return judgement(judged, tally.differs, made.length - judged);
}

/** How many ids are the same from the start. */
function alikeUntil(some: readonly number[], others: readonly number[]): number {
  const at = some.findIndex((id, place) => id !== others[place]);
  return at < 0 ? some.length : at;
}
