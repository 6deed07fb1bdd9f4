import { encodeHalf } from '../../src/gpu/testing/matrices.ts';
import { Random } from '../../src/gpu/testing/random.ts';

/** GGML's types that random matrices are made of: one of 4 bits with minima, one of 8. */
export type RandomBlockType = 'Q4_1' | 'Q8_0';

interface BlockShape {
  readonly bytes: number;
  readonly values: number;
  /** Where its quants begin; halves come before. */
  readonly quantsAt: number;
  /** Deviation of its quants, all alike. */
  readonly deviation: number;
  /** Scale and minimum of a block whose values have deviation `one`, in steps of the quants. */
  readonly halves: (scale: number) => readonly number[];
}

const SHAPES: Readonly<Record<RandomBlockType, BlockShape>> = {
  Q4_1: { bytes: 20, values: 32, quantsAt: 4, deviation: 4.61, halves: (scale) => [scale, -7.5 * scale] },
  Q8_0: { bytes: 34, values: 32, quantsAt: 2, deviation: 73.9, halves: (scale) => [scale] },
};

/** Blocks that all matrices are cut from: bytes repeat after so many, and copying them is all that a read costs. */
const POOL_BLOCKS = 1 << 15;
const pools = new Map<string, Uint8Array>();

export function blockBytes(type: RandomBlockType, values: number): number {
  const { bytes, values: each } = SHAPES[type];
  if (values % each !== 0) throw new RangeError(`${values} values are no whole blocks of ${each}`);
  return (values / each) * bytes;
}

/**
 * Bytes [from, from + length) of a matrix of `columns` columns in blocks of `type`, as a file has them: any quants, and
 * scales that give its values a deviation of 1 / √columns. `key` tells matrices apart.
 */
export function randomBlocks(
  type: RandomBlockType,
  columns: number,
  key: number,
  from: number,
  length: number,
): Uint8Array {
  const pool = poolOf(type, columns);
  const { bytes } = SHAPES[type];
  const read = new Uint8Array(length);
  const first = (Math.imul(key, 0x9e3779b1) >>> 0) % POOL_BLOCKS;
  let at = (first * bytes + from) % pool.length;
  for (let filled = 0; filled < length; ) {
    const piece = pool.subarray(at, Math.min(pool.length, at + length - filled));
    read.set(piece, filled);
    filled += piece.length;
    at = 0;
  }
  return read;
}

function poolOf(type: RandomBlockType, columns: number): Uint8Array {
  const name = `${type} ${columns}`;
  const known = pools.get(name);
  if (known) return known;
  const { bytes, quantsAt, deviation, halves } = SHAPES[type];
  const random = new Random(columns);
  const pool = Uint8Array.from({ length: POOL_BLOCKS * bytes }, () => random.integer(0, 255));
  const view = new DataView(pool.buffer);
  const numbers = halves(1 / Math.sqrt(columns) / deviation);
  if (2 * numbers.length !== quantsAt) throw new RangeError(`${type} has ${quantsAt} bytes before its quants`);
  for (let block = 0; block < POOL_BLOCKS; block++) {
    numbers.forEach((number, i) => {
      view.setUint16(block * bytes + 2 * i, encodeHalf(number), true);
    });
  }
  pools.set(name, pool);
  return pool;
}
