/**
 * cos and sin of position × theta^(−2i / headSize) for i < headSize / 2: [positions, headSize / 2, 2] f32.
 * Computed in float64 (Su et al., "RoFormer", 2021, with the halves rotated as in Hugging Face's Llama).
 */
export function ropeTable(positions: number, headSize: number, theta: number): Float32Array<ArrayBuffer> {
  const half = headSize / 2;
  const table = new Float32Array(positions * headSize);
  for (let i = 0; i < half; i++) {
    // The reference keeps its frequencies in float32: at position 100,000 the rounding shows.
    const frequency = Math.fround(1 / theta ** ((2 * i) / headSize));
    for (let position = 0; position < positions; position++) {
      const at = (position * half + i) * 2;
      table[at] = Math.cos(position * frequency);
      table[at + 1] = Math.sin(position * frequency);
    }
  }
  return table;
}
