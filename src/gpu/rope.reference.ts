/**
 * One head [headSize] rotated by `position`, with a table of ropeTable for the first `rotated` numbers: halves are pairs,
 * as in Hugging Face's Llama.
 */
export function ropeReference(
  head: Float32Array,
  table: Float32Array,
  position: number,
  rotated: number = head.length,
): Float32Array {
  const half = rotated / 2;
  return head.map((x, d) => {
    if (d >= rotated) return x;
    const at = (position * half + (d % half)) * 2;
    const [cos, sin] = [table[at]!, table[at + 1]!];
    return d < half ? x * cos - head[d + half]! * sin : x * cos + head[d - half]! * sin;
  });
}
