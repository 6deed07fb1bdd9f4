/** A rotary embedding (Su et al., "RoFormer", 2021), with halves of the rotated numbers paired as in Hugging Face's models. */
export interface RopeTurns {
  /** Of each pair, radians a position. */
  readonly frequencies: Float32Array;
  /** Multiplies cos and sin. */
  readonly factor: number;
}

/** factor · cos and factor · sin of position × frequency: [positions, frequencies, 2] f32, computed in float64. */
export function ropeTable(positions: number, { frequencies, factor }: RopeTurns): Float32Array<ArrayBuffer> {
  const half = frequencies.length;
  const table = new Float32Array(positions * half * 2);
  frequencies.forEach((frequency, i) => {
    for (let position = 0; position < positions; position++) {
      const at = (position * half + i) * 2;
      table[at] = factor * Math.cos(position * frequency);
      table[at + 1] = factor * Math.sin(position * frequency);
    }
  });
  return table;
}

/** Of heads of `headSize` numbers, with frequencies of theta^(−2i / headSize). */
export function plainTurns(headSize: number, theta: number): RopeTurns {
  // The reference keeps its frequencies in float32: at position 100,000 the rounding shows.
  const frequencies = Float32Array.from({ length: headSize / 2 }, (_, i) => 1 / theta ** ((2 * i) / headSize));
  return { frequencies, factor: 1 };
}
