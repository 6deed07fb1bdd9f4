import type { Floats, TopLogprobs } from '../contract/gen/node_relay_pb.ts';
import type { NormalisedRequest } from '../contract/normalised-request.ts';
import { Lie } from './lie.ts';
import type { TopOfPosition } from './sample.ts';

/** The smallest float32: what a logprob of −∞ is told as. */
const LOWEST = -3.4028234663852886e38;

/** The lists of logprobs of one position; each is set where asked for. */
export interface ToldLists {
  readonly top: TopOfPosition | undefined;
  /** In the order of the request's `logprobIds`. */
  readonly byId: Float32Array | undefined;
}

const NO_LISTS: ToldLists = { top: undefined, byId: undefined };

/**
 * Checks the lists of consecutive positions, `count` of them from `position` on: each list is whole, and those of
 * position 0 of a prompt are empty. Throws Lie.
 */
export function checkLists(
  { topLogprobs: top, logprobIds }: NormalisedRequest,
  told: { readonly topLogprobs: readonly TopLogprobs[]; readonly idLogprobs: readonly Floats[] },
  count: number,
  vocabSize: number,
  position?: number,
): readonly ToldLists[] {
  const ids = logprobIds.length;
  if (told.topLogprobs.length !== (top > 0 ? count : 0)) throw new Lie('another number of top logprobs than positions');
  if (told.idLogprobs.length !== (ids > 0 ? count : 0)) throw new Lie('another number of id logprobs than positions');
  if (top === 0 && ids === 0) return new Array(count).fill(NO_LISTS);
  return Array.from({ length: count }, (_, at) => {
    const nothingBefore = position !== undefined && position + at === 0;
    return {
      top: top > 0 ? checkTop(told.topLogprobs[at] as TopLogprobs, nothingBefore ? 0 : top, vocabSize) : undefined,
      byId: ids > 0 ? checkByIds(told.idLogprobs[at] as Floats, nothingBefore ? 0 : ids) : undefined,
    };
  });
}

/** A list may be a whole vocabulary's: plain loops, and nothing made for each entry. */
function checkTop({ tokenIds, logprobs }: TopLogprobs, count: number, vocabSize: number): TopOfPosition {
  if (tokenIds.length !== count || logprobs.length !== count) throw new Lie('another number of top logprobs');
  const seen = new Uint8Array(vocabSize);
  for (const id of tokenIds) {
    if (id >= vocabSize) throw new Lie('a top token outside the vocabulary');
    if (seen[id] === 1) throw new Lie('a top token twice');
    seen[id] = 1;
  }
  const values = checkLogprobs(logprobs);
  for (let at = 1; at < count; at++) {
    if ((values[at] as number) > (values[at - 1] as number)) throw new Lie('top logprobs that are not best first');
  }
  return { ids: tokenIds, logprobs: values };
}

function checkByIds({ values }: Floats, count: number): Float32Array {
  if (values.length !== count) throw new Lie('another number of id logprobs');
  return checkLogprobs(values);
}

function checkLogprobs(told: readonly number[]): Float32Array {
  const values = new Float32Array(told);
  for (let at = 0; at < values.length; at++) values[at] = checkLogprob(values[at] as number);
  return values;
}

export function checkLogprob(value: number): number {
  // A sum of float32 exponentials may come out a hair below the best term: a logprob may be a hair above 0.
  if (Number.isNaN(value) || value > 1e-2) throw new Lie('a logprob that is none');
  return Math.max(value, LOWEST);
}

/** A hidden state, [hiddenSize], finite. Throws Lie. */
export function checkHidden(told: Floats | undefined, hiddenSize: number): Float32Array {
  if (told?.values.length !== hiddenSize) throw new Lie('a hidden state of another size');
  if (!told.values.every(Number.isFinite)) throw new Lie('a hidden state that is no number');
  return new Float32Array(told.values);
}
