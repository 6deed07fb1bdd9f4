// tanh(x) as (1 - e) / (1 + e) with e = exp(-2 |x|): no argument overflows, where WGSL's own may, and a NaN stays one.
fn boundedTanh(x: f32) -> f32 {
  let e = exp(-2.0 * abs(x));
  let t = (1.0 - e) / (1.0 + e);
  return select(t, -t, x < 0.0);
}
