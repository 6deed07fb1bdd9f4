/** The value at `share` of the sorted values (nearest rank). */
export function percentile(values: readonly number[], share: number): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))]!;
}

export function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** Of the middle half of the sorted values. */
export function middleMean(values: readonly number[]): number {
  const cut = Math.floor(values.length / 4);
  const middle = [...values].sort((a, b) => a - b).slice(cut, values.length - cut);
  return middle.reduce((sum, value) => sum + value, 0) / middle.length;
}
