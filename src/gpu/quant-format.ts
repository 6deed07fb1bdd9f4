import scaleF16 from '../../shaders/scale-f16.wgsl?raw';
import scaleF32 from '../../shaders/scale-f32.wgsl?raw';
import q4 from '../../shaders/weight-q4.wgsl?raw';
import q8 from '../../shaders/weight-q8.wgsl?raw';
import type { MatrixLayout } from './weight-format.ts';

/** How the GPU keeps a quantised matrix: value = scale · quant + min, scale and min one a block of a row. */
export interface QuantShape {
  /** 4: unsigned quants, 0 … 15. 8: signed ones, −128 … 127. */
  readonly bits: 4 | 8;
  /** Columns of a block. */
  readonly block: 16 | 32;
  /** How scales and minima are kept; f16 only where that is exact. */
  readonly scale: 'f16' | 'f32';
}

/** Bits, block and scale of a QuantShape. */
export type QuantFormat = `q${QuantShape['bits']}-${QuantShape['block']}-${QuantShape['scale']}`;

/** Columns of a row that are kept together; a quantised matrix has a multiple of it. */
export const UNIT_COLUMNS = 32;

/** Consecutive rows of a quantised matrix. */
export interface QuantRows {
  /** [rows, columns] */
  readonly quants: Int8Array;
  /** [rows, columns / block] */
  readonly scales: Float32Array;
  /** Like `scales`. */
  readonly mins: Float32Array;
}

export const QUANT_FORMATS: readonly QuantFormat[] = ([4, 8] as const).flatMap((bits) =>
  ([32, 16] as const).flatMap((block) => (['f16', 'f32'] as const).map((scale) => quantFormat({ bits, block, scale }))),
);

export function quantFormat({ bits, block, scale }: QuantShape): QuantFormat {
  return `q${bits}-${block}-${scale}`;
}

export function quantShape(format: QuantFormat): QuantShape {
  const [bits, block, scale] = format.slice(1).split('-');
  return {
    bits: Number(bits) as QuantShape['bits'],
    block: Number(block) as QuantShape['block'],
    scale: scale as QuantShape['scale'],
  };
}

export function quantLayout({ bits, block, scale }: QuantShape): MatrixLayout {
  const scales = UNIT_COLUMNS / block;
  return {
    code: [scale === 'f16' ? scaleF16 : scaleF32, bits === 4 ? q4 : q8],
    constants: { SCALES: scales },
    wordColumns: UNIT_COLUMNS,
    planes: [(UNIT_COLUMNS * bits) / 8, scales * (scale === 'f16' ? 4 : 8)],
  };
}

/** The value of each weight, as the GPU has it: one rounding. */
export function quantValues({ quants, scales, mins }: QuantRows, block: number): Float32Array<ArrayBuffer> {
  return Float32Array.from(quants, (quant, i) => {
    const at = Math.floor(i / block);
    return scales[at]! * quant + mins[at]!;
  });
}
