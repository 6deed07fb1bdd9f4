/** Context lengths of a table: 64, 128, 192 … most. */
export function contexts(most: number): number[] {
  return Array.from({ length: Math.floor(most / 64) }, (_, i) => (i + 1) * 64);
}

/** How far `value` is from its neighbour before it, as a share of the smaller one. */
export function difference(before: number, value: number): number {
  return Math.abs(value - before) / Math.min(value, before);
}

export const MOST_DIFFERENCE = 0.15;
