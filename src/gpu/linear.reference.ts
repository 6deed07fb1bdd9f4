import type { LinearPath } from './linear-variant.ts';

/** The product of weights [rows, columns] and x [columns]: [rows], summed in float64. */
export function linearReference(weights: Float32Array, rows: number, x: Float32Array): Float32Array {
  const columns = x.length;
  const output = new Float32Array(rows);
  for (let row = 0; row < rows; row++) {
    let sum = 0;
    for (let k = 0; k < columns; k++) sum += weights[row * columns + k]! * x[k]!;
    output[row] = sum;
  }
  return output;
}

/**
 * The columns that the path dot multiplies by: of each 32, integers of 8 bits over the largest. Minima of quantised weights
 * are multiplied by the columns themselves.
 */
export function roundedColumns(x: Float32Array): Float32Array {
  const rounded = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += 32) {
    const unit = x.subarray(start, start + 32);
    const largest = unit.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const inverse = Math.fround(127 / Math.max(largest, 2 ** -100));
    // Ties are to even numbers, as in WGSL.
    unit.forEach((value, i) => {
      const scaled = Math.fround(value * inverse);
      const nearest = Math.round(scaled);
      const whole = Math.abs(scaled - Math.trunc(scaled)) === 0.5 && nearest % 2 !== 0 ? nearest - 1 : nearest;
      rounded[start + i] = (whole * largest) / 127;
    });
  }
  return rounded;
}

/**
 * By how much a path's product may be off, as a fraction of the lengths of row and column multiplied. Of exact paths f32
 * sums; halves have 11 bits, and a quant's product is rounded once and summed in halves; an integer of 8 bits is off by
 * 1 / 254 of the largest of 32.
 */
export const LINEAR_TOLERANCES: Readonly<Record<LinearPath, number>> = {
  plain: 2 ** -18,
  quads: 2 ** -18,
  f16: 2 ** -8,
  matrix: 2 ** -9,
  dot: 2 ** -6,
};
