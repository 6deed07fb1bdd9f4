import bf16 from '../../shaders/weight-bf16.wgsl?raw';
import f16 from '../../shaders/weight-f16.wgsl?raw';
import f32 from '../../shaders/weight-f32.wgsl?raw';

/** How the numbers of a weight matrix are kept on the GPU. */
export type WeightFormat = 'f32' | 'f16' | 'bf16';

export interface WeightFormatInfo {
  /** Bytes of one weight. */
  readonly bytes: number;
  /** WGSL: WeightWord, four weights, and weightUnpack. */
  readonly code: string;
  /** `count` weights of little-endian bytes as f32. */
  decode(bytes: Uint8Array, count: number): Float32Array<ArrayBuffer>;
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

/** Bytes of a row on the GPU: whole words of four weights, and a multiple of 16. */
export function rowBytes(format: WeightFormat, columns: number): number {
  return Math.ceil((columns * WEIGHT_FORMATS[format].bytes) / 16) * 16;
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
