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
  // Four quants at a time, one a byte: column 4i + lane of a unit becomes digit i of its word's lane.
  const aligned = quants.byteOffset % 4 === 0 ? quants : new Int8Array(quants);
  const fours = new Int32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4);
  // Words of a row, one a tile's length apart.
  const words = (columns / UNIT_COLUMNS) * (bits === 4 ? 1 : 2);
  for (let i = 0; i < places.length; i++) {
    const place = places[i]!;
    if (place < 0) continue;
    let to = tileStart(place, words) * 4;
    const from = (i * columns) / 4;
    if (bits === 4) {
      for (let at = from; at < from + 8 * words; at += 8, to += 4 * TILE_ROWS) {
        writeLanes(
          stretch,
          to,
          twoDigits(fours[at]!, fours[at + 1]!),
          twoDigits(fours[at + 2]!, fours[at + 3]!),
          twoDigits(fours[at + 4]!, fours[at + 5]!),
          twoDigits(fours[at + 6]!, fours[at + 7]!),
        );
      }
    } else {
      for (let at = from; at < from + 4 * words; at += 4, to += 4 * TILE_ROWS) {
        writeLanes(stretch, to, fours[at]!, fours[at + 1]!, fours[at + 2]!, fours[at + 3]!);
      }
    }
  }
}

/** Bytes of two digits each: the low digits of `low`, those of `high` above them. */
export function twoDigits(low: number, high: number): number {
  return (low & 0x0f0f0f0f) | ((high & 0x0f0f0f0f) << 4);
}

/** Byte `lane` of each of four words, the first lowest, as word `at + lane`: a square of bytes on its side. */
export function writeLanes(
  to: Uint32Array,
  at: number,
  first: number,
  second: number,
  third: number,
  fourth: number,
): void {
  const even = (first & 0x00ff00ff) | ((second & 0x00ff00ff) << 8);
  const odd = ((first >>> 8) & 0x00ff00ff) | (second & 0xff00ff00);
  const evenAbove = (third & 0x00ff00ff) | ((fourth & 0x00ff00ff) << 8);
  const oddAbove = ((third >>> 8) & 0x00ff00ff) | (fourth & 0xff00ff00);
  to[at] = (even & 0xffff) | (evenAbove << 16);
  to[at + 1] = (odd & 0xffff) | (oddAbove << 16);
  to[at + 2] = (even >>> 16) | (evenAbove & 0xffff0000);
  to[at + 3] = (odd >>> 16) | (oddAbove & 0xffff0000);
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
  for (let i = 0; i < places.length; i++) {
    const place = places[i]!;
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
export function tileStart(row: number, words: number): number {
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

/** Whether a half is one that `exactHalf` gives: finite, and not subnormal. */
export function isKeptHalf(half: number): boolean {
  const exponent = half & 0x7c00;
  return exponent === 0 ? (half & 0x3ff) === 0 : exponent !== 0x7c00;
}
