import type { ToldRow } from './told-row.ts';

/** Weights at a temperature, over the best token's: of each told token, and of all others together. */
export interface Weights {
  readonly least: Float64Array;
  readonly most: Float64Array;
  readonly othersLeast: number;
  readonly othersMost: number;
  /** Of one token that isn't told. */
  readonly ceilingMost: number;
}

/**
 * exp(logit / temperature), each logit off by up to `tolerance`. Of the others only the number n, the sum s of exp(logit)
 * and the highest, c, are known. With a = 1 / temperature their weights sum to between n^(1-a) s^a and s c^(a-1), the former
 * being the least where a ≥ 1 and the most where a < 1 (power means, and each weight being at most c).
 */
export function weightsOf(row: ToldRow, temperature: number, tolerance: number): Weights {
  const best = row.tokens[0]!.logit;
  const power = 1 / temperature;
  const weight = (logit: number) => Math.exp((logit - best) * power);
  const least = Float64Array.from(row.tokens, ({ logit }) => weight(logit - tolerance));
  const most = Float64Array.from(row.tokens, ({ logit }) => weight(logit + tolerance));
  const even = (mass: number) =>
    mass > 0 && row.others > 0 ? Math.exp((1 - power) * Math.log(row.others) + power * (Math.log(mass) - best)) : 0;
  const steep = (mass: number) => (mass > 0 ? Math.exp(Math.log(mass) - best + (power - 1) * (row.ceiling - best)) : 0);
  const [low, high] = power >= 1 ? [even, steep] : [steep, even];
  return {
    least,
    most,
    othersLeast: low(row.othersLeast) * Math.exp(-tolerance * power),
    othersMost: high(row.othersMost) * Math.exp(tolerance * power),
    ceilingMost: weight(row.ceiling + tolerance),
  };
}
