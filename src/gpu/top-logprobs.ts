/**
 * A row's top logprobs from `top` of the Sampler, [count, 2] u32 from entry `at` on: best first, ties by ascending id.
 * The GPU tells which they are, in no order. Equal logprobs are in the order of their ids, also of logits that differ.
 */
export function readTop(
  words: Uint32Array<ArrayBuffer>,
  at: number,
  count: number,
): { readonly ids: Uint32Array<ArrayBuffer>; readonly logprobs: Float32Array<ArrayBuffer> } {
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  const order = Uint32Array.from({ length: count }, (_, i) => (at + i) * 2);
  order.sort((a, b) => floats[b + 1]! - floats[a + 1]! || words[a]! - words[b]!);
  return { ids: order.map((i) => words[i]!), logprobs: Float32Array.from(order, (i) => floats[i + 1]!) };
}
