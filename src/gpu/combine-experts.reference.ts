/** Of one row: the sum of what its experts made, [chosen, columns], each by its share. */
export function combineReference(shares: readonly number[], made: Float32Array): Float32Array {
  const columns = made.length / shares.length;
  return Float32Array.from({ length: columns }, (_, k) =>
    shares.reduce((sum, share, j) => sum + share * made[j * columns + k]!, 0),
  );
}
