import { type QuantRows, type QuantShape, UNIT_COLUMNS } from './quant-format.ts';
import { TILE_ROWS } from './weight-format.ts';

// Rows as the GPU has them, in tiles (shaders/weight-dense.wgsl, weight-q4.wgsl, weight-q8.wgsl). A stretch begins with
// a whole tile; each function puts row i of what it gets at row places[i] of the stretch, and leaves it out where that
// is negative.

/** Rows [count, columns] of floats of `bytes` bytes each. */
export function packFloats(
  stretch: Uint32Array,
  places: Int32Array,
  columns: number,
  source: Uint8Array,
  bytes: 2 | 4,
): void {
  const aligned = source.byteOffset % bytes === 0 ? source : new Uint8Array(source);
  const from = elements(aligned, bytes);
  const to = elements(stretch, bytes);
  const words = Math.ceil(columns / 4);
  places.forEach((place, i) => {
    if (place < 0) return;
    const start = tileStart(place, words) * 4;
    const at = i * columns;
    for (let column = 0; column < columns; column++) {
      to[start + (column >> 2) * TILE_ROWS * 4 + (column & 3)] = from[at + column]!;
    }
  });
}

/** Rows of quants, `bits` bits each. */
export function packQuants(
  stretch: Uint32Array,
  places: Int32Array,
  columns: number,
  quants: Int8Array,
  bits: 4 | 8,
): void {
  const units = columns / UNIT_COLUMNS;
  // Words of a unit, one a tile's length apart; four columns a shift, four lanes a word.
  const words = bits === 4 ? 1 : 2;
  const shifts = 32 / bits;
  const mask = 2 ** bits - 1;
  places.forEach((place, i) => {
    if (place < 0) return;
    let at = i * columns;
    for (let word = 0; word < units * words; word++, at += 4 * shifts) {
      const to = (tileStart(place, units * words) + word * TILE_ROWS) * 4;
      for (let lane = 0; lane < 4; lane++) {
        let packed = 0;
        for (let shift = 0; shift < shifts; shift++) {
          packed |= (quants[at + 4 * shift + lane]! & mask) << (bits * shift);
        }
        stretch[to + lane] = packed;
      }
    }
  });
}

/** Scales and minima of rows of `columns`. False where a half would not be exact, or be subnormal. */
export function packScales(
  stretch: Uint32Array,
  places: Int32Array,
  columns: number,
  { scales, mins }: QuantRows,
  { block, scale }: QuantShape,
): boolean {
  const blocks = columns / block;
  const [scaleBits, minBits] = [bitsOf(scales), bitsOf(mins)];
  for (const [i, place] of places.entries()) {
    if (place < 0) continue;
    for (let start = tileStart(place, blocks), b = 0, at = i * blocks; b < blocks; b++, at++) {
      const to = start + b * TILE_ROWS;
      if (scale === 'f32') {
        stretch[2 * to] = scaleBits[at]!;
        stretch[2 * to + 1] = minBits[at]!;
      } else {
        const low = exactHalf(scaleBits[at]!);
        const high = exactHalf(minBits[at]!);
        if (low < 0 || high < 0) return false;
        stretch[to] = low | (high << 16);
      }
    }
  }
  return true;
}

function elements(data: Uint8Array | Uint32Array, bytes: 2 | 4): Uint32Array | Uint16Array {
  const count = data.byteLength / bytes;
  return bytes === 4
    ? new Uint32Array(data.buffer, data.byteOffset, count)
    : new Uint16Array(data.buffer, data.byteOffset, count);
}

/** Where row `row` begins in a stretch of words, each row having `words` of them. */
function tileStart(row: number, words: number): number {
  return Math.floor(row / TILE_ROWS) * TILE_ROWS * words + (row % TILE_ROWS);
}

function bitsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}

/** The half with the value of the f32 that has these bits; −1 where there is none but a subnormal one. */
export function exactHalf(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const size = bits & 0x7fffffff;
  if (size === 0) return sign;
  const exponent = (size >>> 23) - 112;
  if ((size & 0x1fff) !== 0 || exponent < 1 || exponent > 30) return -1;
  return sign | (exponent << 10) | ((size >>> 13) & 0x3ff);
}
