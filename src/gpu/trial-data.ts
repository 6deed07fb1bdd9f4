import { threefry } from '../contract/threefry.ts';
import { type QuantRows, quantShape, quantValues } from './quant-format.ts';
import { isQuantFormat, type MatrixFormat, WEIGHT_FORMATS } from './weight-format.ts';
import type { AnySource } from './weight-matrix.ts';

/** Numbers that look random and are the same everywhere. */
export class TrialData {
  readonly #key: number;
  #counter = 0;

  constructor(key: number) {
    this.#key = key;
  }

  /** In [0, 2³²). */
  word(): number {
    return threefry([this.#key, 0], [this.#counter++, 0])[0];
  }

  /** `count` numbers in [−size, size). */
  numbers(count: number, size = 1): Float32Array<ArrayBuffer> {
    return Float32Array.from({ length: count }, () => size * (this.word() / 2 ** 31 - 1));
  }

  /** A matrix to load, with the values that it holds. */
  matrix(
    rows: number,
    columns: number,
    format: MatrixFormat,
  ): { source: AnySource; values: Float32Array<ArrayBuffer> } {
    const label = `trial ${format}`;
    if (isQuantFormat(format)) {
      const { bits, block } = quantShape(format);
      const count = (rows * columns) / block;
      const zero = bits === 4 ? 0 : 128;
      // Sixteenths and the like, which halves hold.
      const eighths = (size: number) =>
        Float32Array.from({ length: count }, () => (((this.word() >>> 28) - 7.5) * size) / 8);
      const all: QuantRows = {
        quants: Int8Array.from({ length: rows * columns }, () => (this.word() >>> (32 - bits)) - zero),
        scales: eighths(bits === 4 ? 1 / 8 : 1 / 64),
        mins: eighths(1 / 2),
      };
      const blocks = columns / block;
      const readRows = async (from: number, some: number): Promise<QuantRows> => ({
        quants: all.quants.subarray(from * columns, (from + some) * columns),
        scales: all.scales.subarray(from * blocks, (from + some) * blocks),
        mins: all.mins.subarray(from * blocks, (from + some) * blocks),
      });
      return { source: { label, rows, format, readRows }, values: quantValues(all, block) };
    }
    // Quarters up to two, which every float format holds: f32, then as many of its, or a half's, first bits.
    const values = Float32Array.from({ length: rows * columns }, () => ((this.word() >>> 28) - 7.5) / 4);
    const words = new Uint32Array(values.buffer);
    const bytes =
      format === 'f32'
        ? new Uint8Array(values.buffer)
        : new Uint8Array(Uint16Array.from(words, format === 'bf16' ? (word) => word >>> 16 : halfOf).buffer);
    const read = async (from: number, length: number) => bytes.subarray(from, from + length);
    return { source: { label, rows, format, read }, values: WEIGHT_FORMATS[format].decode(bytes, values.length) };
  }
}

/** The half with an f32's bits, of one that a normal half holds. */
function halfOf(word: number): number {
  return ((word >>> 16) & 0x8000) | ((((word >>> 23) & 255) - 112) << 10) | ((word >>> 13) & 1023);
}
