import type { BlockFormat } from './ggml-block.ts';
import { decodeHalf } from './half.ts';

// Formats whose four-bit quants are places in a table of values.

/** Values of IQ4_NL and IQ4_XS: denser around zero. */
export const NON_LINEAR = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113] as const;

/** Values of FP4 E2M1, doubled so that they are whole. */
export const E2M1 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] as const;

/** Sixteen bytes of nibbles at `at`: values 0 … 15 the low ones, 16 … 31 the high ones. */
function decodeTable(
  table: readonly number[],
  scale: number,
  block: DataView,
  at: number,
  values: Float32Array,
  to: number,
): void {
  for (let i = 0; i < 16; i++) {
    const pair = block.getUint8(at + i);
    values[to + i] = scale * table[pair & 15]!;
    values[to + 16 + i] = scale * table[pair >> 4]!;
  }
}

/** d, 16 bytes of nibbles: d · table[q]. */
export const IQ4_NL: BlockFormat = {
  values: 32,
  bytes: 18,
  halves: [0],
  decode(block, at, values, to) {
    decodeTable(NON_LINEAR, decodeHalf(block.getUint16(at, true)), block, at + 2, values, to);
  },
};

/** d, eight pairs of high scale bits, eight nibbles of low ones, 128 bytes of nibbles: d · (scale − 32) · table[q]. */
export const IQ4_XS: BlockFormat = {
  values: 256,
  bytes: 136,
  halves: [0],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at, true));
    const high = block.getUint16(at + 2, true);
    for (let sub = 0; sub < 8; sub++) {
      const low = (block.getUint8(at + 4 + (sub >> 1)) >> (4 * (sub & 1))) & 15;
      const scale = Math.fround(d * ((low | (((high >> (2 * sub)) & 3) << 4)) - 32));
      decodeTable(NON_LINEAR, scale, block, at + 8 + 16 * sub, values, to + 32 * sub);
    }
  },
};

/** An E8M0 exponent e, 16 bytes of nibbles: 2^(e − 128) · table[q] with the doubled table. */
export const MXFP4: BlockFormat = {
  values: 32,
  bytes: 17,
  halves: [],
  exponentByte: true,
  decode(block, at, values, to) {
    decodeTable(E2M1, 2 ** (block.getUint8(at) - 128), block, at + 1, values, to);
  },
};
