import type { EmbedInput, NormalisedRequest } from '../../contract/normalised-request.ts';
import { Job } from '../job.ts';
import { type Judgement, judgement } from './judge.ts';
import type { Scoring } from './scoring.ts';
import { vectorToleranceOf } from './tolerance.ts';

/**
 * One input's vector made again: nothing of it is drawn, and two honest nodes differ in rounding only. `index` is the
 * input's in the request; `vector` what was told of it.
 */
export function remadeVector(request: NormalisedRequest, index: number, vector: Float32Array): Scoring {
  const input: EmbedInput = request.embedInputs![index]!;
  const again = { ...request, requestId: '', inputIds: input.ids, embedInputs: [input], n: 1, rank: undefined };
  return {
    toleranceOf: vectorToleranceOf,
    newJob: (id) => new Job(id, again),
    read(job) {
      const remade = job.outcome === 'complete' ? job.samples[0]!.vector : undefined;
      return remade && { rows: [], ids: [], ended: false, vector: remade };
    },
    judge: (told, tolerance) => judgeVector(vector, told.vector!, tolerance),
    compare: (one, other, tolerance) => judgeVector(one.vector!, other.vector!, tolerance),
  };
}

/**
 * Two vectors of one input are the same within |a - b| ≤ √2 · tolerance · max(|a|, |b|, 1): of length 1, where their cosine is at least
 * 1 - tolerance²: 0.9999 between exact nodes, 0.91 where one is fast. Logits near 0 may differ by as much as those near 1.
 */
export function judgeVector(one: Float32Array, other: Float32Array, tolerance: number): Judgement {
  const off = Math.hypot(...one.map((value, at) => value - other[at]!));
  const most = Math.SQRT2 * tolerance * Math.max(Math.hypot(...one), Math.hypot(...other), 1);
  return judgement(1, off <= most ? 0 : 1, 0);
}
