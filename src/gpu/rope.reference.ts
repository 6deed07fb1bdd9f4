/** One head [headSize] rotated by `position`, with a table of ropeTable: halves are pairs, as in Hugging Face's Llama. */
export function ropeReference(head: Float32Array, table: Float32Array, position: number): Float32Array {
  const half = head.length / 2;
  return head.map((x, d) => {
    const at = (position * half + (d % half)) * 2;
    const [cos, sin] = [table[at]!, table[at + 1]!];
    return d < half ? x * cos - head[d + half]! * sin : x * cos + head[d - half]! * sin;
  });
}
