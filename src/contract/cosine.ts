/** How alike two vectors of as many numbers are, in [-1, 1]; 0 where one is of length 0. */
export function cosine(a: readonly number[], b: readonly number[]): number {
  const lengths = Math.hypot(...a) * Math.hypot(...b);
  return lengths === 0 ? 0 : a.reduce((sum, value, at) => sum + value * b[at]!, 0) / lengths;
}
