import { quantShape } from '../../src/gpu/quant-format.ts';
import { isQuantFormat, type MatrixFormat } from '../../src/gpu/weight-format.ts';
import type { AnySource } from '../../src/gpu/weight-matrix.ts';

/** Weights whose times are those of any others. */
export function madeUpMatrix(format: MatrixFormat, rows: number, columns: number): AnySource {
  const label = `bench ${format}`;
  if (!isQuantFormat(format)) {
    const ones = { f32: 0x3f800000, f16: 0x3c003c00, bf16: 0x3f803f80 }[format];
    const read = async (_: number, length: number) => new Uint8Array(new Uint32Array(length / 4).fill(ones).buffer);
    return { label, rows, format, read };
  }
  const { bits, block } = quantShape(format);
  return {
    label,
    rows,
    format,
    readRows: async (_, count) => ({
      quants: new Int8Array(count * columns).fill(bits === 4 ? 11 : -77),
      scales: new Float32Array((count * columns) / block).fill(1 / 64),
      mins: new Float32Array((count * columns) / block).fill(-7.5 / 64),
    }),
  };
}
