/** Logit of an id that can't be drawn: the lowest finite f32. */
export const MASKED_LOGIT = -3.4028234663852886e38;

/** Adjusted logits stay within ± this, so that none is taken for a masked one, and none overflows. */
export const LOGIT_BOUND = Math.fround(3.4e38);

/** What one row's logits are adjusted by. */
export interface LogitAdjustments {
  /** How often each id is in the output so far. */
  readonly counts: ReadonlyMap<number, number>;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly repetitionPenalty: number;
  /** A bit per id, set where it may be drawn, least significant first; undefined: every id may. */
  readonly mask: Uint32Array | undefined;
  /** Ids that can't be drawn. */
  readonly bannedIds: Iterable<number>;
  readonly biases: readonly { readonly id: number; readonly bias: number }[];
}

/**
 * Logits as draws and logprobs see them: penalties over the output, then masks, then biases; a masked id stays masked.
 * f32, as in shaders/adjust-logits.wgsl. NaN and infinities stay as they are.
 */
export function adjustLogitsReference(logits: Float32Array, adjustments: LogitAdjustments): Float32Array {
  const out = logits.slice();
  const change = (id: number, to: (logit: number) => number) => {
    if (Number.isFinite(out[id])) out[id] = to(out[id]!);
  };
  for (const [id, count] of adjustments.counts) change(id, (logit) => penalised(logit, count, adjustments));
  for (const { id, bias } of adjustments.biases) change(id, (logit) => biased(logit, Math.fround(bias)));
  for (const id of adjustments.bannedIds) change(id, () => MASKED_LOGIT);
  const { mask } = adjustments;
  if (mask) {
    for (let id = 0; id < out.length; id++) {
      if (((mask[id >>> 5]! >>> (id & 31)) & 1) === 0) change(id, () => MASKED_LOGIT);
    }
  }
  return out;
}

function penalised(logit: number, count: number, adjustments: LogitAdjustments): number {
  const frequency = Math.fround(adjustments.frequencyPenalty);
  const presence = Math.fround(adjustments.presencePenalty);
  const repetition = Math.fround(adjustments.repetitionPenalty);
  const subtracted = Math.fround(Math.fround(frequency * count) + presence);
  const x = bounded(Math.fround(bounded(logit) - subtracted));
  if (x < 0) return bounded(Math.fround(x * repetition));
  return x > 0 ? bounded(Math.fround(x / repetition)) : x;
}

function biased(logit: number, bias: number): number {
  return bounded(bounded(logit) + bounded(bias));
}

/** Infinities too, which only arithmetic here makes. */
function bounded(x: number): number {
  return Math.min(Math.max(x, -LOGIT_BOUND), LOGIT_BOUND);
}
