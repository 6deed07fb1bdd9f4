import type { BlockFormat } from './ggml-block.ts';
import { decodeHalf } from './half.ts';

/** IEEE 754 single precision. */
export const F32: BlockFormat = {
  values: 1,
  bytes: 4,
  halves: [],
  decode(block, at, values, to) {
    values[to] = block.getFloat32(at, true);
  },
};

/** IEEE 754 half precision. */
export const F16: BlockFormat = {
  values: 1,
  bytes: 2,
  halves: [],
  decode(block, at, values, to) {
    values[to] = decodeHalf(block.getUint16(at, true));
  },
};

const scratch = new DataView(new ArrayBuffer(4));

/** The upper half of a single. */
export const BF16: BlockFormat = {
  values: 1,
  bytes: 2,
  halves: [],
  decode(block, at, values, to) {
    scratch.setUint16(0, block.getUint16(at, true));
    values[to] = scratch.getFloat32(0);
  },
};
