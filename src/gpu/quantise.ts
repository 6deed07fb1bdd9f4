import type { QuantFormat, QuantRows } from './quant-format.ts';
import { UNIT_COLUMNS } from './quant-format.ts';
import { WEIGHT_FORMATS } from './weight-format.ts';
import type { AnySource, MatrixSource, QuantSource } from './weight-matrix.ts';

/** How weights are quantised while they load: q8 is symmetric, q4 has minima; blocks of 32, scales are halves. */
export type Quantisation = 'q8' | 'q4';

const BLOCK = 32;
/** What quantised matrices of floats become. */
export const QUANTISED_FORMATS = { q8: 'q8-32-f16', q4: 'q4-32-f16' } as const satisfies Readonly<
  Record<Quantisation, QuantFormat>
>;

/**
 * Quantises whole blocks of 32 values. Where no half involved overflows, a value is off by at most
 * half a step, and what the rounding of scale and minimum to halves adds: see `quantisationError`.
 */
export function quantise(values: Float32Array, quantisation: Quantisation): QuantRows {
  const blocks = values.length / BLOCK;
  const rows = {
    quants: new Int8Array(values.length),
    scales: new Float32Array(blocks),
    mins: new Float32Array(blocks),
  };
  const block = quantisation === 'q8' ? symmetricBlock : affineBlock;
  for (let b = 0; b < blocks; b++) block(values, b, rows);
  return rows;
}

/** The most that a value of a block with these extremes can be off. */
export function quantisationError(least: number, most: number, quantisation: Quantisation): number {
  // A half has 11 digits, and steps of 2^-24 at least; the scale's error counts once a quant.
  const rounding = (value: number) => Math.max(Math.abs(value) * 2 ** -11, 2 ** -25);
  if (quantisation === 'q8') {
    const step = Math.max(Math.abs(least), Math.abs(most)) / 127;
    return step / 2 + 128 * rounding(step);
  }
  const step = (most - least) / 15;
  return step / 2 + 16 * rounding(step) + rounding(least);
}

/** scale = most / 127, quants −127 … 127. */
function symmetricBlock(values: Float32Array, b: number, { quants, scales }: QuantRows): void {
  const from = b * BLOCK;
  let most = 0;
  for (let i = from; i < from + BLOCK; i++) most = Math.max(most, Math.abs(values[i]!));
  const scale = nearestHalf(most / 127);
  scales[b] = scale;
  const inverse = scale === 0 ? 0 : 1 / scale;
  for (let i = from; i < from + BLOCK; i++) quants[i] = clamp(Math.round(values[i]! * inverse), -127, 127);
}

/** min = the least value, scale = (most − least) / 15, quants 0 … 15. */
function affineBlock(values: Float32Array, b: number, { quants, scales, mins }: QuantRows): void {
  const from = b * BLOCK;
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let i = from; i < from + BLOCK; i++) {
    least = Math.min(least, values[i]!);
    most = Math.max(most, values[i]!);
  }
  const min = nearestHalf(least);
  // From the minimum as it is kept, so that the largest value is met.
  const scale = nearestHalf((most - min) / 15);
  mins[b] = min;
  scales[b] = scale;
  const inverse = scale === 0 ? 0 : 1 / scale;
  for (let i = from; i < from + BLOCK; i++) quants[i] = clamp(Math.round((values[i]! - min) * inverse), 0, 15);
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}

/** The value of the half nearest to `value`, ties to even; the largest half where there is none so large. */
export function nearestHalf(value: number): number {
  const size = Math.abs(value);
  if (!(size > 0)) return value;
  const exponent = Math.max(-14, Math.min(15, Math.floor(Math.log2(size))));
  const unit = 2 ** (exponent - 10);
  const steps = size / unit;
  let whole = Math.floor(steps);
  const rest = steps - whole;
  if (rest > 0.5 || (rest === 0.5 && whole % 2 === 1)) whole++;
  return Math.sign(value) * Math.min(whole * unit, 65_504);
}

/** `source` quantised as it is read; itself where its columns are no whole blocks. */
export function quantisedSource(source: MatrixSource, columns: number, quantisation: Quantisation): AnySource {
  if (columns % UNIT_COLUMNS !== 0) return source;
  const { bytes, decode } = WEIGHT_FORMATS[source.format];
  const rowBytes = columns * bytes;
  const quantised: QuantSource = {
    label: source.label,
    rows: source.rows,
    format: QUANTISED_FORMATS[quantisation],
    async readRows(from, count) {
      const read = await source.read(from * rowBytes, count * rowBytes);
      return quantise(decode(read, count * columns), quantisation);
    },
  };
  return quantised;
}
