import type { BlockFormat } from './ggml-block.ts';
import { decodeHalf } from './half.ts';

// Super-blocks of 256 values in sub-blocks of 16 or 32, each with a small integer scale (and minimum) of its own.
// d: scale of the scales, dmin: scale of the minima.

/**
 * 16 bytes of scale (low nibble) and minimum (high), 64 bytes of 2-bit quants, d, dmin: d · scale · q − dmin · min.
 * Of each 32 bytes of quants, bits 2k and 2k + 1 are values 32k … 32k + 31 of their half of the block.
 */
export const Q2_K: BlockFormat = {
  values: 256,
  bytes: 84,
  halves: [80, 82],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at + 80, true));
    const dmin = decodeHalf(block.getUint16(at + 82, true));
    for (let sub = 0; sub < 16; sub++) {
      const packed = block.getUint8(at + sub);
      const scale = Math.fround(d * (packed & 15));
      const min = Math.fround(dmin * (packed >> 4));
      const quants = at + 16 + 32 * (sub >> 3) + 16 * (sub & 1);
      const shift = sub & 6;
      for (let i = 0; i < 16; i++) {
        const q = (block.getUint8(quants + i) >> shift) & 3;
        values[to + 16 * sub + i] = Math.fround(scale * q) - min;
      }
    }
  },
};

/**
 * 32 bytes of third bits, 64 bytes of 2-bit quants, 12 bytes of 16 six-bit scales, d: d · (scale − 32) · q, where q is
 * the two bits, less 4 where the third bit is 0. Of the third bits, bit k of byte i belongs to value 32k + i.
 */
export const Q3_K: BlockFormat = {
  values: 256,
  bytes: 110,
  halves: [108],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at + 108, true));
    for (let sub = 0; sub < 16; sub++) {
      // Bytes 0 … 7 hold the low four bits of scale i in the low and of i + 8 in the high nibble; bytes 8 … 11 the high two.
      const low = (block.getUint8(at + 96 + (sub & 7)) >> (sub < 8 ? 0 : 4)) & 15;
      const high = (block.getUint8(at + 104 + (sub & 3)) >> (2 * (sub >> 2))) & 3;
      const scale = Math.fround(d * ((low | (high << 4)) - 32));
      const quants = at + 32 + 32 * (sub >> 3) + 16 * (sub & 1);
      const thirds = at + 16 * (sub & 1);
      for (let i = 0; i < 16; i++) {
        const two = (block.getUint8(quants + i) >> (sub & 6)) & 3;
        const third = (block.getUint8(thirds + i) >> (sub >> 1)) & 1;
        values[to + 16 * sub + i] = scale * (two - (third ? 0 : 4));
      }
    }
  },
};

/** The six-bit scale and minimum of sub-block `sub` (0 … 7) in the 12 bytes at `at` of Q4_K and Q5_K. */
export function scaleAndMin(block: DataView, at: number, sub: number): readonly [number, number] {
  if (sub < 4) return [block.getUint8(at + sub) & 63, block.getUint8(at + 4 + sub) & 63];
  // The last four have their low nibbles in bytes 8 … 11, their high bits over those of the first four.
  const low = block.getUint8(at + 4 + sub);
  const scale = (low & 15) | ((block.getUint8(at + sub - 4) >> 6) << 4);
  const min = (low >> 4) | ((block.getUint8(at + sub) >> 6) << 4);
  return [scale, min];
}

/**
 * d, dmin, 12 bytes of scales and minima, `fifths` bytes of fifth bits (32 or none), 128 bytes of nibbles:
 * d · scale · q − dmin · min. Of each 32 bytes of nibbles the low ones are one sub-block of 32, the high ones the next;
 * of the fifth bits, bit k of byte i belongs to value 32k + i.
 */
function nibblesWithMinima(fifths: 0 | 32): BlockFormat {
  return {
    values: 256,
    bytes: 144 + fifths,
    halves: [0, 2],
    decode(block, at, values, to) {
      const d = decodeHalf(block.getUint16(at, true));
      const dmin = decodeHalf(block.getUint16(at + 2, true));
      for (let sub = 0; sub < 8; sub++) {
        const [sixBits, sixBitsMin] = scaleAndMin(block, at + 4, sub);
        const scale = Math.fround(d * sixBits);
        const min = Math.fround(dmin * sixBitsMin);
        const quants = at + 16 + fifths + 32 * (sub >> 1);
        for (let i = 0; i < 32; i++) {
          const four = (block.getUint8(quants + i) >> (4 * (sub & 1))) & 15;
          const fifth = fifths === 0 ? 0 : (block.getUint8(at + 16 + i) >> sub) & 1;
          values[to + 32 * sub + i] = Math.fround(scale * (four | (fifth << 4))) - min;
        }
      }
    },
  };
}

export const Q4_K: BlockFormat = nibblesWithMinima(0);
export const Q5_K: BlockFormat = nibblesWithMinima(32);

/**
 * 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, d: d · scale · (q − 32). In each half of the
 * block, values 32k … 32k + 31 take the nibbles of bytes 32(k mod 2) … + 31, low for k < 2, and bits 2k, 2k + 1 of the
 * pairs.
 */
export const Q6_K: BlockFormat = {
  values: 256,
  bytes: 210,
  halves: [208],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at + 208, true));
    for (let sub = 0; sub < 16; sub++) {
      const scale = Math.fround(d * block.getInt8(at + 192 + sub));
      const half = sub >> 3;
      const k = (sub & 7) >> 1;
      const nibbles = at + 64 * half + 32 * (k & 1) + 16 * (sub & 1);
      const pairs = at + 128 + 32 * half + 16 * (sub & 1);
      for (let i = 0; i < 16; i++) {
        const low = (block.getUint8(nibbles + i) >> (k < 2 ? 0 : 4)) & 15;
        const high = (block.getUint8(pairs + i) >> (2 * k)) & 3;
        values[to + 16 * sub + i] = scale * ((low | (high << 4)) - 32);
      }
    }
  },
};
