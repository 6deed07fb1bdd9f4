import { FLOAT_MAX, orderReference } from '../sampler.reference.ts';

/** Parameters that decide which tokens stay. */
export interface Filters {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
}

/** A row's tokens best first, in float64, with the numbers of them that may stay. */
export interface KeptTokens {
  readonly order: Uint32Array;
  /** [tokens that aren't masked + 1] running sums of exp((logit − best) / T). */
  readonly sums: Float64Array;
  /** At least so many stay, and at most; they differ where a limit is met within rounding. */
  readonly least: number;
  readonly most: number;
}

/** Of masses, against the total: f32 sums and exponentials. */
export const MASS_TOLERANCE = 2e-5;
/** Weights below 2^-44 of the best's count as none: less than a draw of 24 bits can tell. */
const LOG2_FLOOR = -44;

/**
 * Which first n of the order (logit descending, id ascending) may stay: top k, the tokens with a weight before them of
 * at most top p, and weights of at least min p; every limit but top k taken both ways where it is met within rounding.
 */
export function keptTokens(logits: Float32Array, { temperature, topK, topP, minP }: Filters): KeptTokens {
  const whole = orderReference(logits);
  const masked = whole.findIndex((id) => logits[id] === -FLOAT_MAX);
  const order = masked === -1 ? whole : whole.subarray(0, masked);
  const high = logits[order[0]!]!;
  const sums = new Float64Array(order.length + 1);
  order.forEach((id, i) => {
    sums[i + 1] = sums[i]! + Math.exp((logits[id]! - high) / temperature);
  });
  const total = sums[order.length]!;
  // What a limit as a logit may be off by, in nats.
  const nats = 1e-5 + (2 ** -22 * Math.abs(high)) / temperature;
  const limit = topK > 0 ? topK : order.length;
  const bounded = (slack: number) => {
    for (let i = 0; i < order.length; i++) {
      const power = (logits[order[i]!]! - high) / temperature;
      if (i >= limit) return i;
      if (topP < 1 && sums[i]! > (topP + slack * MASS_TOLERANCE) * total) return i;
      if (minP > 0 && power < Math.log(minP) - slack * nats) return i;
      if (power < LOG2_FLOOR * Math.LN2 - slack * (nats + 1e-4)) return i;
    }
    return order.length;
  };
  return { order, sums, least: Math.max(1, bounded(-1)), most: Math.max(1, bounded(1)) };
}
