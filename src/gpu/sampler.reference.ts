import { threefry } from './threefry.ts';

/** The largest finite f32. A logit of -FLOAT_MAX is a masked id's: its weight is 0. */
export const FLOAT_MAX = 3.4028234663852886e38;

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

/** The draw's uniform: an integer in [0, 2²⁴). */
export function drawInteger(seed: bigint, outputPosition: number, sampleIndex: number): number {
  const key = [Number(seed & 0xffffffffn), Number((seed >> 32n) & 0xffffffffn)] as const;
  return threefry(key, [outputPosition, sampleIndex])[0] >>> 8;
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

/** The id that a row gives. */
export function sampleReference(logits: Float32Array, params: DrawParams, outputPosition: number): number {
  if (params.temperature === 0) return argmaxReference(logits);
  const uniform = drawInteger(params.seed, outputPosition, params.sampleIndex) / 2 ** 24;
  return inverseCdfReference(logprobsReference(logits, params.temperature), keptReference(logits, params), uniform).id;
}
