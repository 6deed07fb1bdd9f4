import { drawInteger, HEAD, HEAD_MOST, ROUNDS } from '../../contract/draw-uniform.ts';
import type { NormalisedSampling } from '../../contract/normalised-request.ts';
import type { ToldRow } from './told-row.ts';
import { type Weights, weightsOf } from './weights.ts';

/** A step's id can be what the step drew; it can't be; or what is told doesn't say. */
export type StepVerdict = 'agrees' | 'differs' | 'open';

/** Sums of f32 weights on a GPU, and the uniform's 24 bits. */
const UNIFORM_SLACK = 2 ** -18;

/** Which draw of which sample it is. */
export interface DrawPlace {
  readonly seed: bigint;
  readonly sampleIndex: number;
  /** Tokens before it in the output. */
  readonly position: number;
}

/** A way that a draw may have gone: among the best `kept` tokens, and what lies behind them, at a round's uniform. */
interface Way {
  readonly kept: number;
  readonly behindLeast: number;
  readonly behindMost: number;
  readonly round: number;
}

/**
 * Whether a step can have drawn `id` from a row whose logprobs are within `tolerance` of what is told: the rule of
 * docs/kernels.md, "Sampling", with an interval in place of each weight. Never 'differs' where all logprobs are within the
 * tolerance.
 */
export function judgeStep(
  row: ToldRow,
  id: number,
  sampling: NormalisedSampling,
  place: DrawPlace,
  tolerance: number,
): StepVerdict {
  const { tokens, ceiling } = row;
  const best = tokens[0];
  if (!best) return 'open';
  const at = tokens.findIndex((token) => token.id === id);
  if (sampling.temperature === 0) {
    const logit = tokens[at]?.logit ?? ceiling;
    if (logit + tolerance < best.logit - tolerance) return 'differs';
    return at < 0 ? 'open' : 'agrees';
  }
  const weights = weightsOf(row, sampling.temperature, tolerance);
  // Above it for sure, and perhaps; one that isn't told is at the ceiling at best.
  const logit = tokens[at]?.logit ?? ceiling;
  const surely = tokens.filter((token) => token.logit - tolerance > logit + tolerance).length;
  const maybe = at < 0 ? tokens.length : tokens.filter((token) => token.logit + tolerance >= logit - tolerance).length;
  let open = false;
  for (const way of waysOf(row, weights, sampling, tolerance)) {
    const uniform = drawInteger(place.seed, place.position, place.sampleIndex, way.round) / 2 ** 24;
    if (mayFallBehind(weights, way, uniform)) open = true;
    if (surely >= way.kept && !(at < 0 && way.behindMost > 0)) continue;
    const share = shareOf(weights, way, Math.min(surely, way.kept), Math.min(maybe, way.kept), at);
    if (uniform + UNIFORM_SLACK < share.from || uniform - UNIFORM_SLACK >= share.to) continue;
    if (at >= 0) return 'agrees';
    open = true;
  }
  return open ? 'open' : 'differs';
}

/** Where a token's part of the running weight begins at the least, and ends at the most, in parts of all of `way`'s. */
function shareOf({ least, most }: Weights, way: Way, surely: number, maybe: number, at: number) {
  const { kept, behindLeast, behindMost } = way;
  const above = sum(least, 0, surely);
  const from = above / (above + sum(most, surely, kept) + behindMost);
  if (at < 0) return { from, to: 1 };
  const through = sum(most, 0, maybe);
  return { from, to: through / (through + sum(least, maybe, kept) + behindLeast) };
}

function mayFallBehind({ least }: Weights, { kept, behindMost }: Way, uniform: number): boolean {
  if (behindMost === 0) return false;
  const before = sum(least, 0, kept);
  return uniform + UNIFORM_SLACK >= before / (before + behindMost);
}

/** Every way that the row's draw may have gone. */
function waysOf(
  row: ToldRow,
  weights: Weights,
  { topK, topP, minP, temperature }: NormalisedSampling,
  tolerance: number,
): readonly Way[] {
  const known = row.tokens.length;
  const vocabulary = known + row.others;
  const limited = topK > 0 && topK < vocabulary;
  const whole = { kept: known, behindLeast: weights.othersLeast, behindMost: weights.othersMost, round: 0 };
  if (!limited && topP >= 1 && minP <= 0) return [whole];

  const [fewest, most] = keptCounts(row, weights, { topK: limited ? topK : 0, topP, minP, temperature }, tolerance);
  const ways: Way[] = [];
  for (let kept = fewest; kept <= Math.min(most, known); kept++) {
    ways.push({ kept, behindLeast: 0, behindMost: 0, round: 0 });
  }
  // All that is told may be kept, and more: what is behind it, none of it told.
  const room = limited ? topK - known : row.others;
  if (most < known || room <= 0) return ways;
  const behindMost = Math.min(weights.othersMost, room * weights.ceilingMost);
  const behind = { kept: known, behindLeast: 0, behindMost };
  if (limited && topK <= HEAD_MOST) return [...ways, { ...behind, round: 0 }];
  ways.push({ ...behind, round: 0 });
  if (limited) return [...ways, { ...behind, round: ROUNDS }];
  // A draw over the whole row, of which only what falls on the told tokens is known to stay.
  if (known >= Math.min(HEAD, vocabulary)) return fewest < known ? [...ways, whole] : [whole];
  return [...ways, whole];
}

/** How many of the told tokens stay, at the least and at the most. */
function keptCounts(
  { tokens }: ToldRow,
  weights: Weights,
  { topK, topP, minP, temperature }: { topK: number; topP: number; minP: number; temperature: number },
  tolerance: number,
): readonly [number, number] {
  const count = tokens.length;
  const best = tokens[0]!.logit;
  let fewest: number | undefined;
  for (let at = 0; at < count; at++) {
    const under = (tokens[at]!.logit - best) / temperature;
    const slack = (2 * tolerance) / temperature;
    const lnMinP = minP > 0 ? Math.log(minP) : Number.NEGATIVE_INFINITY;
    const before = { least: sum(weights.least, 0, at), most: sum(weights.most, 0, at) };
    const rest = { least: sum(weights.least, at, count), most: sum(weights.most, at, count) };
    const shareLeast = before.least / (before.least + rest.most + weights.othersMost);
    const shareMost = before.most / (before.most + rest.least + weights.othersLeast);
    const surely = at === 0 || ((topP >= 1 || shareMost + UNIFORM_SLACK <= topP) && under - slack >= lnMinP);
    const maybe = at === 0 || ((topP >= 1 || shareLeast - UNIFORM_SLACK <= topP) && under + slack >= lnMinP);
    const within = topK === 0 || at < topK;
    if (!(surely && within)) fewest ??= at;
    if (!(maybe && within)) return [fewest!, at];
  }
  return [fewest ?? count, count];
}

function sum(values: Float64Array, from: number, to: number): number {
  let total = 0;
  for (let at = from; at < to; at++) total += values[at]!;
  return total;
}
