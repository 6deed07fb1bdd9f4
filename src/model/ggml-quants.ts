import { scaleAndMin } from '../checkpoint/ggml-k-quants.ts';
import { E2M1, NON_LINEAR } from '../checkpoint/ggml-tables.ts';
import { GGML_FORMATS, type GgmlType } from '../checkpoint/ggml-types.ts';
import { decodeHalf } from '../checkpoint/half.ts';
import type { QuantFormat, QuantRows } from '../gpu/quant-format.ts';
import { quantShape } from '../gpu/quant-format.ts';

/** GGML's quantised types: all that are no floats. */
export type GgmlQuantType = Exclude<GgmlType, 'F32' | 'F16' | 'BF16'>;

interface Writable {
  readonly quants: Int8Array;
  /** The quants, four at a time. */
  readonly fours: Int32Array;
  readonly scales: Float32Array;
  readonly mins: Float32Array;
}

interface Repacker {
  readonly format: QuantFormat;
  /** Writes the block at byte `at` as quants from index `to` on, and scales and minima from index `b` on. */
  block(view: DataView, at: number, out: Writable, to: number, b: number): void;
}

/** Sixteen bytes of nibbles at `at`: quants 0 … 15 the low ones, 16 … 31 the high ones, through `table`. */
function nibbles(view: DataView, at: number, table: readonly number[], quants: Int8Array, to: number): void {
  for (let i = 0; i < 16; i++) {
    const pair = view.getUint8(at + i);
    quants[to + i] = table[pair & 15]!;
    quants[to + 16 + i] = table[pair >> 4]!;
  }
}

/** The same without a table. */
function plainNibbles(view: DataView, at: number, { fours }: Writable, to: number): void {
  for (let i = 0; i < 4; i++) {
    const pairs = view.getInt32(at + 4 * i, true);
    fours[to / 4 + i] = pairs & 0x0f0f0f0f;
    fours[to / 4 + 4 + i] = (pairs >>> 4) & 0x0f0f0f0f;
  }
}

/** Nibbles as `nibbles` has them, with a fifth bit each out of a u32 and `less` taken away. */
function fiveBits(view: DataView, at: number, fifths: number, less: number, out: Writable, to: number): void {
  const { quants } = out;
  plainNibbles(view, at, out, to);
  for (let i = 0; i < 32; i++) quants[to + i] = (quants[to + i]! | (((fifths >>> i) & 1) << 4)) - less;
}

/** Q4_K and Q5_K, with `fifths` bytes of fifth bits. */
function nibblesWithMinima(fifths: 0 | 32): Repacker['block'] {
  return (view, at, out, to, b) => {
    const d = decodeHalf(view.getUint16(at, true));
    const dmin = decodeHalf(view.getUint16(at + 2, true));
    for (let sub = 0; sub < 8; sub++) {
      const [scale, min] = scaleAndMin(view, at + 4, sub);
      out.scales[b + sub] = d * scale;
      out.mins[b + sub] = -dmin * min;
      const from = at + 16 + fifths + 32 * (sub >> 1);
      const shift = 4 * (sub & 1);
      for (let i = 0; i < 32; i++) {
        const fifth = fifths === 0 ? 0 : (view.getUint8(at + 16 + i) >> sub) & 1;
        out.quants[to + 32 * sub + i] = ((view.getUint8(from + i) >> shift) & 15) | (fifth << 4);
      }
    }
  };
}

/** The layouts are those of src/checkpoint/ggml-*.ts; scale · quant + min rounds once, as the formulas there do. */
const REPACKERS: Readonly<Record<GgmlQuantType, Repacker>> = {
  Q4_0: {
    format: 'q4-32-f16',
    block(view, at, out, to, b) {
      const d = decodeHalf(view.getUint16(at, true));
      out.scales[b] = d;
      out.mins[b] = -8 * d;
      plainNibbles(view, at + 2, out, to);
    },
  },
  Q4_1: {
    format: 'q4-32-f16',
    block(view, at, out, to, b) {
      out.scales[b] = decodeHalf(view.getUint16(at, true));
      out.mins[b] = decodeHalf(view.getUint16(at + 2, true));
      plainNibbles(view, at + 4, out, to);
    },
  },
  Q5_0: {
    format: 'q8-32-f16',
    block(view, at, out, to, b) {
      out.scales[b] = decodeHalf(view.getUint16(at, true));
      fiveBits(view, at + 6, view.getUint32(at + 2, true), 16, out, to);
    },
  },
  Q5_1: {
    format: 'q8-32-f16',
    block(view, at, out, to, b) {
      out.scales[b] = decodeHalf(view.getUint16(at, true));
      out.mins[b] = decodeHalf(view.getUint16(at + 2, true));
      fiveBits(view, at + 8, view.getUint32(at + 4, true), 0, out, to);
    },
  },
  Q8_0: {
    format: 'q8-32-f16',
    block(view, at, out, to, b) {
      out.scales[b] = decodeHalf(view.getUint16(at, true));
      for (let i = 0; i < 8; i++) out.fours[to / 4 + i] = view.getInt32(at + 2 + 4 * i, true);
    },
  },
  Q2_K: {
    format: 'q4-16-f32',
    block(view, at, out, to, b) {
      const d = decodeHalf(view.getUint16(at + 80, true));
      const dmin = decodeHalf(view.getUint16(at + 82, true));
      for (let sub = 0; sub < 16; sub++) {
        const packed = view.getUint8(at + sub);
        out.scales[b + sub] = d * (packed & 15);
        out.mins[b + sub] = -dmin * (packed >> 4);
        const from = at + 16 + 32 * (sub >> 3) + 16 * (sub & 1);
        for (let i = 0; i < 16; i++) out.quants[to + 16 * sub + i] = (view.getUint8(from + i) >> (sub & 6)) & 3;
      }
    },
  },
  Q3_K: {
    format: 'q4-16-f32',
    block(view, at, out, to, b) {
      const d = decodeHalf(view.getUint16(at + 108, true));
      for (let sub = 0; sub < 16; sub++) {
        const low = (view.getUint8(at + 96 + (sub & 7)) >> (sub < 8 ? 0 : 4)) & 15;
        const high = (view.getUint8(at + 104 + (sub & 3)) >> (2 * (sub >> 2))) & 3;
        const scale = d * ((low | (high << 4)) - 32);
        out.scales[b + sub] = scale;
        // The quants are kept 4 too large, so that they are unsigned.
        out.mins[b + sub] = -4 * scale;
        const from = at + 32 + 32 * (sub >> 3) + 16 * (sub & 1);
        const thirds = at + 16 * (sub & 1);
        for (let i = 0; i < 16; i++) {
          const two = (view.getUint8(from + i) >> (sub & 6)) & 3;
          const third = (view.getUint8(thirds + i) >> (sub >> 1)) & 1;
          out.quants[to + 16 * sub + i] = two + 4 * third;
        }
      }
    },
  },
  Q4_K: { format: 'q4-32-f32', block: nibblesWithMinima(0) },
  Q5_K: { format: 'q8-32-f32', block: nibblesWithMinima(32) },
  Q6_K: {
    format: 'q8-16-f32',
    block(view, at, out, to, b) {
      const d = decodeHalf(view.getUint16(at + 208, true));
      for (let sub = 0; sub < 16; sub++) {
        out.scales[b + sub] = d * view.getInt8(at + 192 + sub);
        const half = sub >> 3;
        const k = (sub & 7) >> 1;
        const low = at + 64 * half + 32 * (k & 1) + 16 * (sub & 1);
        const pairs = at + 128 + 32 * half + 16 * (sub & 1);
        for (let i = 0; i < 16; i++) {
          const four = (view.getUint8(low + i) >> (k < 2 ? 0 : 4)) & 15;
          const two = (view.getUint8(pairs + i) >> (2 * k)) & 3;
          out.quants[to + 16 * sub + i] = (four | (two << 4)) - 32;
        }
      }
    },
  },
  IQ4_NL: {
    format: 'q8-32-f16',
    block(view, at, out, to, b) {
      out.scales[b] = decodeHalf(view.getUint16(at, true));
      nibbles(view, at + 2, NON_LINEAR, out.quants, to);
    },
  },
  IQ4_XS: {
    format: 'q8-32-f32',
    block(view, at, out, to, b) {
      const d = decodeHalf(view.getUint16(at, true));
      const high = view.getUint16(at + 2, true);
      for (let sub = 0; sub < 8; sub++) {
        const low = (view.getUint8(at + 4 + (sub >> 1)) >> (4 * (sub & 1))) & 15;
        out.scales[b + sub] = d * ((low | (((high >> (2 * sub)) & 3) << 4)) - 32);
        nibbles(view, at + 8 + 16 * sub, NON_LINEAR, out.quants, to + 32 * sub);
      }
    },
  },
  MXFP4: {
    format: 'q8-32-f32',
    block(view, at, out, to, b) {
      out.scales[b] = 2 ** (view.getUint8(at) - 128);
      nibbles(view, at + 1, E2M1, out.quants, to);
    },
  },
};

export const GGML_QUANT_TYPES = Object.keys(REPACKERS) as readonly GgmlQuantType[];

export function isGgmlQuantType(type: string): type is GgmlQuantType {
  return Object.hasOwn(REPACKERS, type);
}

/** How the GPU keeps a type, without loss. */
export function ggmlQuantFormat(type: GgmlQuantType): QuantFormat {
  return REPACKERS[type].format;
}

/** Whole blocks as quants, scales and minima. Throws RangeError where `bytes` ends inside a block. */
export function repackGgml(type: GgmlQuantType, bytes: Uint8Array): QuantRows {
  const { format, block: repack } = REPACKERS[type];
  const { bytes: stride, values } = GGML_FORMATS[type];
  const count = bytes.byteLength / stride;
  if (!Number.isInteger(count)) {
    throw new RangeError(`${bytes.byteLength} bytes are no whole number of ${type} blocks of ${stride}`);
  }
  const scalesABlock = values / quantShape(format).block;
  const quants = new Int8Array(count * values);
  const out = {
    quants,
    fours: new Int32Array(quants.buffer),
    scales: new Float32Array(count * scalesABlock),
    mins: new Float32Array(count * scalesABlock),
  };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0; i < count; i++) repack(view, i * stride, out, i * values, i * scalesABlock);
  return out;
}
