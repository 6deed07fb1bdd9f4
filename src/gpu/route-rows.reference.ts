export interface Route {
  /** Largest probability first; of equal ones the lower index. */
  readonly experts: number[];
  readonly shares: number[];
}

/** Which `chosen` experts a row with these logits goes to, in float64. */
export function routeReference(logits: Float32Array, chosen: number, normalised: boolean): Route {
  const largest = logits.reduce((most, logit) => Math.max(most, logit), Number.NEGATIVE_INFINITY);
  const powers = Array.from(logits, (logit) => Math.exp(logit - largest));
  const experts = Array.from(logits.keys())
    .sort((a, b) => logits[b]! - logits[a]! || a - b)
    .slice(0, chosen);
  const counted = normalised ? experts.map((expert) => powers[expert]!) : powers;
  const sum = counted.reduce((all, power) => all + power, 0);
  return { experts, shares: experts.map((expert) => powers[expert]! / sum) };
}
