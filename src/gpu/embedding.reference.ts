/** Row `id` of a matrix [rows, columns]. */
export function embeddingReference(matrix: Float32Array, columns: number, id: number): Float32Array {
  return matrix.slice(id * columns, (id + 1) * columns);
}
