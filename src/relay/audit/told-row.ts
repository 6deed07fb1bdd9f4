import type { NormalisedSampling } from '../../contract/normalised-request.ts';
import type { TopOfPosition } from '../sample.ts';

/** Sums of told float32 logprobs are off by about so much. */
const SUM_SLACK = 1e-6;

/** A token that a step could draw; its logit is told, up to what all of the row's have in common. */
export interface ToldToken {
  readonly id: number;
  readonly logit: number;
}

/**
 * A row of logits as far as its best tokens tell it, adjusted as a step's draw sees it. What is not told is bounded: each
 * other token's logit by `ceiling`, and the sum of their exponentials.
 */
export interface ToldRow {
  /** Best first: (logit descending, id ascending). None is below `ceiling`. */
  readonly tokens: readonly ToldToken[];
  /** Tokens beside those. */
  readonly others: number;
  readonly ceiling: number;
  readonly othersLeast: number;
  readonly othersMost: number;
}

/** A step of an output, as its draw was adjusted. */
export interface AdjustedStep {
  readonly sampling: NormalisedSampling;
  /** Tokens before it in the output. */
  readonly position: number;
  /** How often each id is among them. */
  readonly counts: ReadonlyMap<number, number>;
}

/**
 * The row that a step drew from, of the best logprobs before penalties, biases and masks. Undefined where these can't be
 * applied to logprobs alone: a repetition penalty goes by the logit's sign, which no logprob tells.
 */
export function toldRow(told: TopOfPosition, step: AdjustedStep, vocabulary: number): ToldRow | undefined {
  const { sampling, position, counts } = step;
  const { repetitionPenalty } = sampling;
  const isTold = new Set(told.ids);
  if (repetitionPenalty !== 1 && counts.size > 0) {
    if (repetitionPenalty < 1 || told.ids.some((id) => counts.has(id))) return undefined;
  }
  const changes = changesOf(step);
  const banned = new Set(position < sampling.minNewTokens ? sampling.maskedStopIds : []);
  let uplift = 0;
  let touched = repetitionPenalty !== 1 && counts.size > 0;
  for (const [id, change] of changes) {
    if (isTold.has(id) || banned.has(id) || change === 0) continue;
    touched = true;
    uplift = Math.max(uplift, change);
  }
  for (const id of banned) touched ||= !isTold.has(id);

  const all = told.ids.length >= vocabulary;
  const lowest = told.logprobs.at(-1) ?? 0;
  const ceiling = all ? Number.NEGATIVE_INFINITY : lowest + uplift;
  const tokens: ToldToken[] = [];
  let mass = 0;
  let sunk = 0;
  told.ids.forEach((id, at) => {
    const logprob = told.logprobs[at]!;
    mass += Math.exp(logprob);
    if (banned.has(id)) return;
    const logit = logprob + (changes.get(id) ?? 0);
    if (logit >= ceiling) tokens.push({ id, logit });
    else sunk += Math.exp(logit);
  });
  tokens.sort((a, b) => b.logit - a.logit || a.id - b.id);
  const left = all ? 0 : Math.max(0, 1 - mass);
  return {
    tokens,
    others: vocabulary - tokens.length,
    ceiling,
    othersLeast: sunk + (touched ? 0 : Math.max(0, left - SUM_SLACK)),
    othersMost: sunk + (all ? 0 : (left + SUM_SLACK) * Math.exp(uplift)),
  };
}

/** The least float32: what a masked token's logprob is told as. */
const MASKED = -3.4028234663852886e38;

/** The row that a step drew from, of its best logprobs as they were drawn from: adjusted, and those of masked tokens the least. */
export function adjustedRow(told: TopOfPosition, vocabulary: number): ToldRow {
  const tokens = told.ids.map((id, at) => ({ id, logit: told.logprobs[at]! })).filter(({ logit }) => logit > MASKED);
  tokens.sort((a, b) => b.logit - a.logit || a.id - b.id);
  // Where a masked one is among the best, no other can be drawn.
  const all = tokens.length < told.ids.length || tokens.length >= vocabulary;
  const left = all ? 0 : Math.max(0, 1 - tokens.reduce((sum, { logit }) => sum + Math.exp(logit), 0));
  return {
    tokens,
    others: vocabulary - tokens.length,
    ceiling: all ? Number.NEGATIVE_INFINITY : tokens.at(-1)!.logit,
    othersLeast: all ? 0 : Math.max(0, left - SUM_SLACK),
    othersMost: all ? 0 : left + SUM_SLACK,
  };
}

/** What is added to the logits of ids: biases, less frequency and presence penalties. */
function changesOf({ sampling, counts }: AdjustedStep): ReadonlyMap<number, number> {
  const { frequencyPenalty, presencePenalty, biases } = sampling;
  const changes = new Map<number, number>();
  const add = (id: number, change: number) => changes.set(id, (changes.get(id) ?? 0) + change);
  if (frequencyPenalty !== 0 || presencePenalty !== 0) {
    for (const [id, count] of counts) add(id, -(frequencyPenalty * count + presencePenalty));
  }
  for (const { id, bias } of biases) add(id, bias);
  return changes;
}
