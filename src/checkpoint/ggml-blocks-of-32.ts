import type { BlockFormat } from './ggml-block.ts';
import { decodeHalf } from './half.ts';

// d: scale, m: minimum, q: quant. Of 16 bytes of nibbles, the low ones are values 0 … 15, the high ones 16 … 31; bit i
// of the u32 of fifth bits belongs to value i.

/** d, 16 bytes of nibbles: d · (q − 8). */
export const Q4_0: BlockFormat = {
  values: 32,
  bytes: 18,
  halves: [0],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at, true));
    for (let i = 0; i < 16; i++) {
      const pair = block.getUint8(at + 2 + i);
      values[to + i] = d * ((pair & 15) - 8);
      values[to + 16 + i] = d * ((pair >> 4) - 8);
    }
  },
};

/** d, m, 16 bytes of nibbles: d · q + m. */
export const Q4_1: BlockFormat = {
  values: 32,
  bytes: 20,
  halves: [0, 2],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at, true));
    const m = decodeHalf(block.getUint16(at + 2, true));
    for (let i = 0; i < 16; i++) {
      const pair = block.getUint8(at + 4 + i);
      values[to + i] = d * (pair & 15) + m;
      values[to + 16 + i] = d * (pair >> 4) + m;
    }
  },
};

/** d, u32 of fifth bits, 16 bytes of nibbles: d · (q − 16). */
export const Q5_0: BlockFormat = {
  values: 32,
  bytes: 22,
  halves: [0],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at, true));
    const fifths = block.getUint32(at + 2, true);
    for (let i = 0; i < 16; i++) {
      const pair = block.getUint8(at + 6 + i);
      values[to + i] = d * (((pair & 15) | (((fifths >>> i) & 1) << 4)) - 16);
      values[to + 16 + i] = d * (((pair >> 4) | (((fifths >>> (i + 16)) & 1) << 4)) - 16);
    }
  },
};

/** d, m, u32 of fifth bits, 16 bytes of nibbles: d · q + m. */
export const Q5_1: BlockFormat = {
  values: 32,
  bytes: 24,
  halves: [0, 2],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at, true));
    const m = decodeHalf(block.getUint16(at + 2, true));
    const fifths = block.getUint32(at + 4, true);
    for (let i = 0; i < 16; i++) {
      const pair = block.getUint8(at + 8 + i);
      values[to + i] = d * ((pair & 15) | (((fifths >>> i) & 1) << 4)) + m;
      values[to + 16 + i] = d * ((pair >> 4) | (((fifths >>> (i + 16)) & 1) << 4)) + m;
    }
  },
};

/** d, 32 signed bytes: d · q. */
export const Q8_0: BlockFormat = {
  values: 32,
  bytes: 34,
  halves: [0],
  decode(block, at, values, to) {
    const d = decodeHalf(block.getUint16(at, true));
    for (let i = 0; i < 32; i++) values[to + i] = d * block.getInt8(at + 2 + i);
  },
};
