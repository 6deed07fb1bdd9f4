// 1 / sqrt(mean(x^2) + epsilon) of row `column` of a product's normed input, whose sums of squares are in `squares` as
// norm-input.wgsl leaves them. The kernel declares these, and in params normColumns, epsilon and squaresWords.
fn normFactor(column: u32) -> f32 {
  var sums = vec4<f32>();
  for (var word = 0u; word < params.squaresWords; word++) {
    let at = (column * params.squaresWords + word) * 4u;
    sums += vec4<f32>(squares[at], squares[at + 1u], squares[at + 2u], squares[at + 3u]);
  }
  let sum = (sums.x + sums.y) + (sums.z + sums.w);
  return 1.0 / sqrt(sum / f32(params.normColumns) + params.epsilon);
}
