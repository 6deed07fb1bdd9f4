import { type QuantFormat, type QuantRows, quantShape, quantValues } from '../quant-format.ts';
import { decodeHalf, isQuantFormat, type MatrixFormat, WEIGHT_FORMATS, type WeightFormat } from '../weight-format.ts';
import type { AnySource, QuantSource } from '../weight-matrix.ts';
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
  format: MatrixFormat = 'f32',
): { readonly source: AnySource; readonly values: Float32Array<ArrayBuffer> } {
  if (isQuantFormat(format)) return randomQuants(random, rows, columns, format);
  const bytes = encodeWeights(random.normals(rows * columns), format);
  return {
    source: { label: `random ${format}`, rows, format, read: async (at, length) => bytes.subarray(at, at + length) },
    values: WEIGHT_FORMATS[format].decode(bytes, rows * columns),
  };
}

function randomQuants(random: Random, rows: number, columns: number, format: QuantFormat) {
  const { bits, block, scale } = quantShape(format);
  const blocks = (rows * columns) / block;
  // As GGML has them: halves, or products of a half and a small integer; of either sign.
  const half = (size: number) => {
    const value = size * (0.1 + random.uniform()) * (random.uniform() < 0.5 ? -1 : 1);
    return scale === 'f16' ? decodeHalf(encodeHalf(value)) : decodeHalf(encodeHalf(value / 32)) * random.integer(1, 63);
  };
  const scales = Float32Array.from({ length: blocks }, () => half(bits === 4 ? 0.1 : 0.01));
  const mins = Float32Array.from({ length: blocks }, () => half(1));
  const quants = Int8Array.from({ length: rows * columns }, () =>
    bits === 4 ? random.integer(0, 15) : random.integer(-128, 127),
  );
  const all: QuantRows = { quants, scales, mins };
  return { source: quantSource(all, columns, format), values: quantValues(all, block) };
}

/** Quants in memory as a source. */
export function quantSource(all: QuantRows, columns: number, format: QuantFormat): QuantSource {
  const rows = all.quants.length / columns;
  const blocks = all.scales.length / rows;
  return {
    label: `quants ${format}`,
    rows,
    format,
    readRows: async (from, count) => ({
      quants: all.quants.subarray(from * columns, (from + count) * columns),
      scales: all.scales.subarray(from * blocks, (from + count) * blocks),
      mins: all.mins.subarray(from * blocks, (from + count) * blocks),
    }),
  };
}
