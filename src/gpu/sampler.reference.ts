import { drawInteger, HEAD, HEAD_MOST, ROUNDS } from '../contract/draw-uniform.ts';
import { HEAD_LIST, STRANDS } from './sampler-layout.ts';

/** The largest finite f32. A logit of -FLOAT_MAX is a masked id's: its weight is 0. */
export const FLOAT_MAX = 3.4028234663852886e38;

/** Of filtered rows, weights below 2⁻⁴⁴ of the best's count as none: less than a draw of 24 bits can tell. */
const LEAST_LN_WEIGHT = -44 * Math.LN2;

export interface DrawParams {
  /** 0 is greedy. */
  readonly temperature: number;
  /** 0 is all. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly seed: bigint;
  readonly sampleIndex: number;
}

/** True where a logit is a NaN or an infinity, or every id is masked: there is nothing to draw then. */
export function hasNonFinite(logits: Float32Array): boolean {
  return logits.some((logit) => !Number.isFinite(logit)) || logits.every((logit) => logit === -FLOAT_MAX);
}

/** The lowest id of the highest logit. */
export function argmaxReference(logits: Float32Array): number {
  let best = 0;
  for (let id = 1; id < logits.length; id++) if (logits[id]! > logits[best]!) best = id;
  return best;
}

/** ln softmax at `temperature` (0: at 1) of the whole vocabulary, never below the smallest finite float. */
export function logprobsReference(logits: Float32Array, temperature: number): Float64Array {
  const t = temperature === 0 ? 1 : temperature;
  const high = logits[argmaxReference(logits)]!;
  const scaled = (logit: number) => (logit === -FLOAT_MAX ? Number.NEGATIVE_INFINITY : (logit - high) / t);
  let sum = 0;
  for (const logit of logits) sum += Math.exp(scaled(logit));
  return Float64Array.from(logits, (logit) => Math.max(scaled(logit) - Math.log(sum), -FLOAT_MAX));
}

/** Ids by (logit descending, id ascending). */
export function orderReference(logits: Float32Array): Uint32Array {
  return Uint32Array.from(logits.keys()).sort((a, b) => logits[b]! - logits[a]! || a - b);
}

/**
 * The ids that stay, best first. Of the order (logit descending, id ascending) the first n: the least of
 * top k, of the tokens with a probability before them ≤ top p, and of those with p ≥ min p × p max.
 */
export function keptReference(logits: Float32Array, params: DrawParams): Uint32Array {
  const logprobs = logprobsReference(logits, params.temperature);
  const order = orderReference(logits);
  const best = logprobs[order[0]!]!;
  let n = 0;
  let before = 0;
  for (const id of order) {
    if (logits[id] === -FLOAT_MAX || (params.topK > 0 && n >= params.topK)) break;
    if (params.topP < 1 && before > params.topP) break;
    if (params.minP > 0 && Math.exp(logprobs[id]! - best) < params.minP) break;
    before += Math.exp(logprobs[id]!);
    n++;
  }
  return order.slice(0, n);
}

/** Tokens that draws look at first. */
export interface Head {
  /** In order; none where too many tokens tie for it. */
  readonly ids: Uint32Array;
  /** No other token can be drawn: they are top k, or all that aren't masked. */
  readonly whole: boolean;
}

/**
 * The best `topK` tokens where that is at most HEAD_MOST, else HEAD. No head where more than HEAD_LIST tokens are as
 * good as that many strands' best.
 */
export function headReference(logits: Float32Array, topK: number): Head {
  const few = topK > 0 && topK <= HEAD_MOST && topK < logits.length;
  const wanted = few ? topK : HEAD;
  const bests = new Float32Array(STRANDS).fill(-FLOAT_MAX);
  logits.forEach((logit, id) => {
    bests[strandOf(id)] = Math.max(bests[strandOf(id)]!, logit);
  });
  const bound = bests.sort().reverse()[wanted - 1]!;
  const near = Uint32Array.from(logits.keys()).filter((id) => logits[id]! >= bound && logits[id] !== -FLOAT_MAX);
  if (near.length > HEAD_LIST) return { ids: new Uint32Array(), whole: false };
  const ids = near.sort((a, b) => logits[b]! - logits[a]! || a - b).slice(0, wanted);
  return { ids, whole: (few && ids.length === topK) || ids.length < wanted };
}

/** The order of draws over a whole row: its head, then all others by strand, then id; without masked ones. */
export function wholeOrderReference(logits: Float32Array, head: Uint32Array): Uint32Array {
  const inHead = new Set(head);
  const strands = Array.from({ length: STRANDS }, (): number[] => []);
  logits.forEach((logit, id) => {
    if (logit !== -FLOAT_MAX && !inHead.has(id)) strands[strandOf(id)]!.push(id);
  });
  return Uint32Array.from([...head, ...strands.flat()]);
}

function strandOf(id: number): number {
  return (id >> 2) % STRANDS;
}

/** Whether anything may keep a token from being drawn. */
export function isFiltered({ topK, topP, minP }: DrawParams, vocabulary: number): boolean {
  return (topK > 0 && topK < vocabulary) || topP < 1 || minP > 0;
}

/** The id at `uniform` in [0, 1) of the running sum of the kept tokens, best first. */
export function inverseCdfReference(
  logprobs: Float64Array,
  kept: Uint32Array,
  uniform: number,
): { readonly id: number; readonly from: number; readonly to: number } {
  let all = 0;
  for (const id of kept) all += Math.exp(logprobs[id]!);
  let from = 0;
  let last = { id: kept[0]!, from: 0, to: 1 };
  for (const id of kept) {
    const weight = Math.exp(logprobs[id]!) / all;
    if (weight === 0) continue;
    last = { id, from, to: from + weight };
    if (from + weight > uniform) break;
    from += weight;
  }
  return last;
}

/**
 * The id that a row gives. Where its head holds all that stays, the draw goes best first at the uniform of round 0. Where
 * nothing is filtered, it goes over the whole row, at the same. With a top k it goes best first at the uniform of round
 * ROUNDS. Else the whole row is drawn from, at the uniforms of rounds 0 to ROUNDS - 1, until a draw stays; if none does,
 * it goes best first at that of round ROUNDS.
 */
export function sampleReference(logits: Float32Array, params: DrawParams, outputPosition: number): number {
  if (params.temperature === 0) return argmaxReference(logits);
  const { seed, sampleIndex, topK } = params;
  const uniform = (round: number) => drawInteger(seed, outputPosition, sampleIndex, round) / 2 ** 24;
  const logprobs = logprobsReference(logits, params.temperature);
  const draw = (ids: Uint32Array, round: number) => inverseCdfReference(logprobs, ids, uniform(round)).id;
  const head = headReference(logits, topK);
  const whole = wholeOrderReference(logits, head.ids);
  if (!isFiltered(params, logits.length)) return draw(whole, 0);
  const best = logprobs[argmaxReference(logits)]!;
  const kept = keptReference(logits, params).filter((id) => logprobs[id]! - best >= LEAST_LN_WEIGHT);
  if (kept.length < head.ids.length || head.whole) return draw(kept, 0);
  const stays = new Set(kept);
  for (let round = 0; round < ROUNDS && (topK === 0 || topK >= logits.length); round++) {
    const id = draw(whole, round);
    if (stays.has(id)) return id;
  }
  return draw(kept, ROUNDS);
}
