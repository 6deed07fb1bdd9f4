/** Words of four that a row of `columns` numbers takes: rows of activations begin at a vec4. */
export function rowWords(columns: number): number {
  return Math.ceil(columns / 4);
}
