/** weight × (x − mean) / sqrt(variance + epsilon) + bias, all of one length; sums in float64. */
export function layerNormReference(
  x: Float32Array,
  weight: Float32Array,
  bias: Float32Array,
  epsilon: number,
): Float32Array {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const scale = 1 / Math.sqrt(variance + epsilon);
  return x.map((value, i) => (value - mean) * scale * weight[i]! + bias[i]!);
}
