/** weight × x / sqrt(mean(x²) + epsilon), all of one length; sums in float64. */
export function rmsNormReference(x: Float32Array, weight: Float32Array, epsilon: number): Float32Array {
  let squares = 0;
  for (const value of x) squares += value * value;
  const scale = 1 / Math.sqrt(squares / x.length + epsilon);
  return x.map((value, i) => value * scale * weight[i]!);
}
