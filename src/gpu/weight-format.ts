import bf16 from '../../shaders/weight-bf16.wgsl?raw';
import dense from '../../shaders/weight-dense.wgsl?raw';
import f16 from '../../shaders/weight-f16.wgsl?raw';
import f32 from '../../shaders/weight-f32.wgsl?raw';
import { type QuantFormat, quantLayout, quantShape } from './quant-format.ts';

/** How a file keeps the numbers of a weight matrix, where they are floats. */
export type WeightFormat = 'f32' | 'f16' | 'bf16';

/** How the GPU keeps them. */
export type MatrixFormat = WeightFormat | QuantFormat;

/** Rows of a tile: on the GPU those of one tile have their words next to each other. */
export const TILE_ROWS = 64;

export interface WeightFormatInfo {
  /** Bytes of one weight. */
  readonly bytes: number;
  /** WGSL: WeightWord, four weights, and weightUnpack. */
  readonly code: string;
  /** `count` weights of little-endian bytes as f32. */
  decode(bytes: Uint8Array, count: number): Float32Array<ArrayBuffer>;
}

/** What kernels and loader know of a format. */
export interface MatrixLayout {
  /** WGSL: WeightWord, TILE and weightAt(row, word, words). */
  readonly code: readonly string[];
  /** Constants that the code is made for. */
  readonly constants: Readonly<Record<string, number>>;
  /** Columns of one word: a row has ⌈columns / wordColumns⌉. */
  readonly wordColumns: number;
  /** Bytes of one word of one row in each plane: weights, and scales where there are any. */
  readonly planes: readonly number[];
}

export const WEIGHT_FORMATS: Readonly<Record<WeightFormat, WeightFormatInfo>> = {
  f32: {
    bytes: 4,
    code: f32,
    decode: (bytes, count) => decodeWith(bytes, count, (view, i) => view.getFloat32(4 * i, true)),
  },
  f16: {
    bytes: 2,
    code: f16,
    decode: (bytes, count) => decodeWith(bytes, count, (view, i) => decodeHalf(view.getUint16(2 * i, true))),
  },
  bf16: {
    bytes: 2,
    code: bf16,
    decode(bytes, count) {
      const scratch = new DataView(new ArrayBuffer(4));
      return decodeWith(bytes, count, (view, i) => {
        scratch.setUint16(0, view.getUint16(2 * i, true));
        return scratch.getFloat32(0);
      });
    },
  },
};

export function isQuantFormat(format: MatrixFormat): format is QuantFormat {
  return !Object.hasOwn(WEIGHT_FORMATS, format);
}

export function matrixLayout(format: MatrixFormat): MatrixLayout {
  if (isQuantFormat(format)) return quantLayout(quantShape(format));
  const { code, bytes } = WEIGHT_FORMATS[format];
  return { code: [code, dense], constants: {}, wordColumns: 4, planes: [4 * bytes] };
}

/** Words of a row of `columns`. */
export function wordsOfRow(format: MatrixFormat, columns: number): number {
  return Math.ceil(columns / matrixLayout(format).wordColumns);
}

/** Bytes of a tile of rows of `columns` on the GPU, all planes together. */
export function tileBytes(format: MatrixFormat, columns: number): number {
  const bytes = matrixLayout(format).planes.reduce((sum, plane) => sum + plane, 0);
  return TILE_ROWS * wordsOfRow(format, columns) * bytes;
}

function decodeWith(bytes: Uint8Array, count: number, read: (view: DataView, i: number) => number) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) values[i] = read(view, i);
  return values;
}

/** The value of an IEEE 754 half. */
export function decodeHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
