import type { Activation } from './activation.ts';

/** The activation of `x`, in float64. */
export function activationReference(kind: Activation, x: number): number {
  switch (kind) {
    case 'silu':
      return x / (1 + Math.exp(-x));
    case 'gelu':
      return (x * (1 + erf(x / Math.SQRT2))) / 2;
    case 'gelu-tanh':
      return (x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))) / 2;
    case 'relu':
      return Math.max(x, 0);
  }
}

/** By a series of positive terms: 2 / sqrt(pi) exp(-x^2) times the sum of 2^n x^(2n + 1) / (2n + 1)!!. */
function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; n < 300; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
