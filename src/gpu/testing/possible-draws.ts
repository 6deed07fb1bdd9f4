import { drawInteger, ROUNDS } from '../../contract/draw-uniform.ts';
import type { LogitsEntry } from '../pack-step.ts';
import { headReference, isFiltered, wholeOrderReference } from '../sampler.reference.ts';
import { keptTokens, MASS_TOLERANCE } from './kept-tokens.ts';

/**
 * The ids that a row may give: sampleReference's, and where f32 sums make a cut, an acceptance or an edge between tokens
 * uncertain, what the other outcome leads to.
 */
export function possibleDraws(logits: Float32Array, entry: LogitsEntry): Set<number> {
  const { order, sums, least, most } = keptTokens(logits, entry);
  const total = sums[order.length]!;
  const slack = MASS_TOLERANCE * total;
  const uniform = (round: number) => drawInteger(entry.seed, entry.outputPosition, entry.sampleIndex, round) / 2 ** 24;
  const head = headReference(logits, entry.topK);
  const ids = new Set<number>();
  const add = (some: Iterable<number>) => {
    for (const id of some) ids.add(id);
  };

  const whole = wholeOrderReference(logits, head.ids);
  const high = logits[order[0]!]!;
  const wholeSums = new Float64Array(whole.length + 1);
  whole.forEach((id, i) => {
    wholeSums[i + 1] = wholeSums[i]! + Math.exp((logits[id]! - high) / entry.temperature);
  });
  const wholeDraws = (round: number) => {
    const share = uniform(round) * total;
    return between(whole, wholeSums, share - slack, share + slack);
  };
  if (!isFiltered(entry, logits.length)) {
    add(wholeDraws(0));
    return ids;
  }

  const size = head.ids.length;
  const lastInHead = head.whole ? most : Math.min(most, size - 1);
  for (let kept = least; kept <= lastInHead; kept++) {
    const share = uniform(0) * sums[Math.min(kept, size)]!;
    add(between(order.subarray(0, kept), sums, share - slack, share + slack));
  }
  if (lastInHead === most) return ids;

  if (entry.topK === 0 || entry.topK >= logits.length) {
    const ranks = new Uint32Array(logits.length).fill(order.length);
    order.forEach((id, rank) => {
      ranks[id] = rank;
    });
    for (let round = 0; round < ROUNDS; round++) {
      const drawn = [...wholeDraws(round)];
      add(drawn.filter((id) => ranks[id]! < most));
      if (drawn.every((id) => ranks[id]! < least)) return ids;
    }
  }
  const share = uniform(ROUNDS);
  add(between(order.subarray(0, most), sums, share * sums[least]! - slack, share * sums[most]! + slack));
  return ids;
}

/** The tokens of `order` that a running weight from `low` to `high` may be in; the last where it is past all. */
function* between(order: Uint32Array, sums: Float64Array, low: number, high: number): Generator<number> {
  let least = 0;
  let most = order.length - 1;
  while (least < most) {
    const middle = (least + most) >> 1;
    if (sums[middle + 1]! >= low) most = middle;
    else least = middle + 1;
  }
  for (let i = least; i < order.length && (i === least || sums[i]! <= high); i++) yield order[i]!;
}
