// The merge of two softmax parts, (m, l) being a part's maximum and its sum of exp(score - m):
//   m' = max(m, ms), l' = l exp(m - m') + ls exp(ms - m'), and the same for the values.
// Returns (exp(m - m'), exp(ms - m')). The bound keeps the start value of m, which is no score, out of exp's dark end.
fn mergeFactors(rowMaximum: f32, splitMaximum: f32) -> vec2<f32> {
  let high = max(rowMaximum, splitMaximum);
  return vec2<f32>(exp(max(rowMaximum - high, -87.0)), exp(max(splitMaximum - high, -87.0)));
}
