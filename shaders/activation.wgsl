// The activation of a feed-forward network; `kind` is an index of ACTIVATIONS (src/gpu/activation.ts).
//
//   0  x / (1 + exp(-x))                                       SiLU
//   1  x (1 + erf(x / sqrt 2)) / 2                             GELU
//   2  x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2       its approximation
//   3  max(x, 0)
//
// exp's argument is bounded: a shader may assume that no infinity occurs. Not by min or max, which would turn a NaN into
// a number, and hide it from the check on the logits.
fn boundedExp(power: f32) -> f32 {
  var bounded = power;
  if (bounded > 80.0) {
    bounded = 80.0;
  }
  return exp(bounded);
}

// x / (1 + exp(-x (linear + cubic x^2))): SiLU, and GELU's tanh form, since (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)). A product's
// finish is made of it too, so that a row has the same bits whether a kernel of its own or the product computes it.
fn sigmoidProduct(x: f32, linear: f32, cubic: f32) -> f32 {
  return x / (1.0 + boundedExp(-x * fma(min(x * x, 1e30), cubic, linear)));
}

// Of x >= 0: Abramowitz and Stegun, 7.1.26, off by 1.5e-7 at most.
fn erfOf(x: f32) -> f32 {
  let t = 1.0 / fma(0.3275911, x, 1.0);
  let sum = t * fma(t, fma(t, fma(t, fma(t, 1.061405429, -1.453152027), 1.421413741), -0.284496736), 0.254829592);
  return fma(-sum, boundedExp(-x * x), 1.0);
}

fn activate(kind: u32, x: f32) -> f32 {
  switch (kind) {
    case 1u: {
      let erf = erfOf(abs(x) * 0.70710678118654752);
      return 0.5 * x * (1.0 + select(erf, -erf, x < 0.0));
    }
    case 2u: {
      // 2 sqrt(2 / pi), and that times 0.044715.
      return sigmoidProduct(x, 1.5957691216057308, 0.07135481627260025);
    }
    case 3u: {
      return select(x, 0.0, x < 0.0);
    }
    default: {
      return sigmoidProduct(x, 1.0, 0.0);
    }
  }
}
