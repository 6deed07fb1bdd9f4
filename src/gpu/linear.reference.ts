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
