import type { WeightFormat } from '../weight-format.ts';
import { WEIGHT_FORMATS } from '../weight-format.ts';
import type { MatrixSource } from '../weight-matrix.ts';
import type { Random } from './random.ts';

/** The bits of the half nearest to `value`, ties to even; for numbers in the range of normal halves and zero. */
export function encodeHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size < 2 ** -14) return sign | Math.round(size * 2 ** 24);
  let exponent = Math.floor(Math.log2(size));
  if (2 ** exponent > size) exponent--;
  const scaled = (size / 2 ** exponent - 1) * 1024;
  const floor = Math.floor(scaled);
  const rest = scaled - floor;
  const fraction = rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
  // A fraction of 1024 carries into the exponent by itself.
  return sign | (((exponent + 15) << 10) + fraction);
}

/** The bits of the bfloat16 nearest to `value`, ties to even. */
export function encodeBfloat(value: number): number {
  const word = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
}

/** `values` as bytes of `format`. */
export function encodeWeights(values: Float32Array<ArrayBuffer>, format: WeightFormat): Uint8Array<ArrayBuffer> {
  if (format === 'f32') return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const encode = format === 'f16' ? encodeHalf : encodeBfloat;
  return new Uint8Array(Uint16Array.from(values, (value) => encode(value)).buffer);
}

/** A random matrix as a source, with the values it really holds. */
export function randomMatrix(
  random: Random,
  rows: number,
  columns: number,
  format: WeightFormat = 'f32',
): { readonly source: MatrixSource; readonly values: Float32Array<ArrayBuffer> } {
  const bytes = encodeWeights(random.normals(rows * columns), format);
  return {
    source: { label: `random ${format}`, rows, format, read: async (at, length) => bytes.subarray(at, at + length) },
    values: WEIGHT_FORMATS[format].decode(bytes, rows * columns),
  };
}
