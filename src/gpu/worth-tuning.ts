import type { ProductNeed } from './kernel-needs.ts';
import type { LinearChoice } from './linear-choice.ts';
import { linearUseName, linearUses } from './linear-trial.ts';
import { TILE_ROWS } from './weight-format.ts';

/** Products of fewer weights in a step aren't worth a choice. */
const LEAST_WEIGHTS = 1 << 20;

/** Products with something to choose, those that a step spends most on first. */
export function worthTuning(products: readonly ProductNeed[], leastWeights = LEAST_WEIGHTS): ProductNeed[] {
  const weights = ({ part, uses }: ProductNeed) => part.tiles * TILE_ROWS * part.columns * uses;
  return products.filter((need) => weights(need) >= leastWeights).sort((a, b) => weights(b) - weights(a));
}

/** The kernels of the first of each product's offers, and of all where it is among `worth`. */
export function namesOf(
  products: readonly ProductNeed[],
  offers: readonly (readonly LinearChoice[])[],
  worth: readonly ProductNeed[],
): Set<string> {
  const names = new Set<string>();
  products.forEach((need, i) => {
    const { part, form } = need;
    for (const choice of worth.includes(need) ? offers[i]! : offers[i]!.slice(0, 1)) {
      for (const use of linearUses(part.format, form, choice)) names.add(linearUseName(use));
    }
  });
  return names;
}
