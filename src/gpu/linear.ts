import type { Gpu } from './gpu.ts';
import { LinearKernel, type LinearVariant } from './linear-variant.ts';
import { rowWords } from './row-words.ts';
import { isQuantFormat, type MatrixFormat, TILE_ROWS, wordsOfRow } from './weight-format.ts';
import type { MatrixPart, WeightMatrix } from './weight-matrix.ts';

/** Products of up to so many columns may have a variant each; more share one. */
export const MATVEC_COLUMNS = [1, 2, 3, 4, 5, 6, 7, 8] as const;

export interface LinearBuffers {
  readonly step: GPUBuffer;
  /** [columns, matrix columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [columns, outputStride] f32. */
  readonly output: GPUBuffer;
}

export interface LinearShape {
  /** Numbers from one column of `output` to the next. */
  readonly outputStride: number;
  /** Add to what `output` holds (a residual) instead of replacing it. */
  readonly accumulate: boolean;
  /** Which word of the step's header counts the columns. */
  readonly countWord: number;
  /** The first column of `input` to take; it is column 0 of `output`. */
  readonly firstColumn?: number;
  /** Parts of K that are summed by themselves; default: 1. Sums differ in their last digits between numbers of splits. */
  readonly splits?: number;
}

/** Which variants a product is made of. */
export interface LinearChoice {
  /** For 1, 2 … 8 columns. */
  readonly matvec: readonly LinearVariant[];
  /** For more. */
  readonly matmul: LinearVariant;
}

interface LinearPart {
  readonly rows: number;
  readonly matvec: readonly LinearKernel[];
  readonly matmul: LinearKernel;
  readonly group: GPUBindGroup;
}

/**
 * The product of a weight matrix and columns of activations: a matrix-vector kernel for each number of columns up to 8,
 * a tiled one for more. All add in the same order, so a column's numbers don't depend on how many there are.
 */
export class Linear {
  readonly #parts: readonly LinearPart[];

  private constructor(parts: readonly LinearPart[]) {
    this.#parts = parts;
  }

  static async create(
    gpu: Gpu,
    matrix: WeightMatrix,
    shape: LinearShape,
    buffers: LinearBuffers,
    choose: (part: MatrixPart) => LinearChoice = defaultChoice,
  ): Promise<Linear> {
    return new Linear(
      await Promise.all(matrix.parts.map((part) => bindPart(gpu, matrix, part, shape, buffers, choose(part)))),
    );
  }

  /** `kernel` is for tests: by default the number of columns decides. */
  encode(
    pass: GPUComputePassEncoder,
    columns: number,
    kernel: 'matvec' | 'matmul' = columns <= MATVEC_COLUMNS.at(-1)! ? 'matvec' : 'matmul',
  ): void {
    if (columns === 0) return;
    for (const part of this.#parts) {
      const variant = kernel === 'matvec' ? part.matvec[columns - 1]! : part.matmul;
      variant.encode(pass, part.group, part.rows, columns);
    }
  }
}

/**
 * Variants of plain WGSL: a thread walks all of K. As many accumulators as registers hold, and few enough to compile
 * fast; where columns are more than a thread's, others take them. Workgroups are small where rows are few.
 */
export function defaultChoice({
  rows,
  format,
}: {
  readonly rows: number;
  readonly format: MatrixFormat;
}): LinearChoice {
  const variant = (own: number, columns: number): LinearVariant => {
    const rowThreads = (Math.ceil(rows / TILE_ROWS) * TILE_ROWS) / own;
    // Some 16 workgroups at least keep every core busy to the end.
    const threads = [64, 32, 16].find((width) => rowThreads >= 16 * width) ?? 8;
    return { rows: own, columns, threads, splitThreads: 1 };
  };
  const single = variant(8, 1);
  const pair = variant(isQuantFormat(format) ? 8 : 4, 2);
  const many = isQuantFormat(format) ? pair : variant(4, 4);
  return {
    matvec: MATVEC_COLUMNS.map((columns) => (columns === 1 ? single : columns < 4 ? pair : many)),
    matmul: many,
  };
}

async function bindPart(
  gpu: Gpu,
  matrix: WeightMatrix,
  part: MatrixPart,
  shape: LinearShape,
  buffers: LinearBuffers,
  choice: LinearChoice,
): Promise<LinearPart> {
  const words = wordsOfRow(part.format, matrix.columns);
  const splits = shape.splits ?? 1;
  const [matmul, ...matvec] = await Promise.all(
    [choice.matmul, ...choice.matvec].map((variant) => {
      if (variant.splitThreads !== 1 && variant.splitThreads !== splits) {
        throw new RangeError(`${variant.splitThreads} threads along K for ${splits} splits`);
      }
      return LinearKernel.compile(gpu, part.format, variant);
    }),
  );
  const [weights, ...scales] = part.planes;
  const group = await matmul!.kernel.bind(
    [
      part.rows,
      words,
      Math.ceil(words / splits),
      rowWords(matrix.columns),
      shape.outputStride,
      part.firstRow,
      shape.accumulate ? 1 : 0,
      shape.countWord,
      shape.firstColumn ?? 0,
    ],
    [buffers.step, weights!, buffers.input, buffers.output, ...scales],
  );
  return { rows: part.rows, matvec, matmul: matmul!, group };
}
