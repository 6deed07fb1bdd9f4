import matmulCode from '../../shaders/linear-matmul.wgsl?raw';
import matvecCode from '../../shaders/linear-matvec.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowWords } from './row-words.ts';
import { rowBytes, WEIGHT_FORMATS } from './weight-format.ts';
import type { MatrixPart, WeightMatrix } from './weight-matrix.ts';

/** Columns of the matrix-vector variants, one for each number: a column too many costs as much as one that counts. */
export const MATVEC_COLUMNS = [1, 2, 3, 4, 5, 6, 7, 8] as const;

const BINDINGS = ['uniform', 'read', 'read', 'read', 'write'] as const;

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
}

interface LinearPart {
  readonly rows: number;
  readonly matvec: readonly Kernel[];
  readonly matmul: Kernel;
  readonly group: GPUBindGroup;
}

/**
 * The product of a weight matrix and columns of activations: matrix-vector kernels for up to 8 columns, a tiled
 * matmul for more. Both add in the same order, so a column's numbers don't depend on how many there are.
 */
export class Linear {
  readonly #parts: readonly LinearPart[];

  private constructor(parts: readonly LinearPart[]) {
    this.#parts = parts;
  }

  static async create(gpu: Gpu, matrix: WeightMatrix, shape: LinearShape, buffers: LinearBuffers): Promise<Linear> {
    return new Linear(await Promise.all(matrix.parts.map((part) => bindPart(gpu, matrix, part, shape, buffers))));
  }

  /** `kernel` is for tests: by default the number of columns decides. */
  encode(
    pass: GPUComputePassEncoder,
    columns: number,
    kernel: 'matvec' | 'matmul' = columns <= MATVEC_COLUMNS.at(-1)! ? 'matvec' : 'matmul',
  ): void {
    if (columns === 0) return;
    for (const part of this.#parts) {
      if (kernel === 'matvec') {
        const variant = MATVEC_COLUMNS.findIndex((width) => width >= columns);
        part.matvec[variant]!.dispatchThreads(pass, part.group, part.rows);
      } else {
        part.matmul.dispatchThreads(pass, part.group, Math.ceil(part.rows / 4) * Math.ceil(columns / 4));
      }
    }
  }
}

async function bindPart(
  gpu: Gpu,
  matrix: WeightMatrix,
  part: MatrixPart,
  shape: LinearShape,
  buffers: LinearBuffers,
): Promise<LinearPart> {
  const format = WEIGHT_FORMATS[part.format];
  const [matmul, ...matvec] = await Promise.all([
    Kernel.compile(gpu, { name: `linear-matmul ${part.format}`, code: [format.code, matmulCode], bindings: BINDINGS }),
    ...MATVEC_COLUMNS.map((COLUMNS) =>
      Kernel.compile(gpu, {
        name: `linear-matvec ${part.format}`,
        code: [format.code, matvecCode],
        constants: { COLUMNS },
        bindings: BINDINGS,
      }),
    ),
  ]);
  const words = rowWords(matrix.columns);
  const group = await matmul.bind(
    [
      part.rows,
      words,
      rowBytes(part.format, matrix.columns) / (4 * format.bytes),
      words,
      shape.outputStride,
      part.firstRow,
      shape.accumulate ? 1 : 0,
      shape.countWord,
      shape.firstColumn ?? 0,
    ],
    [buffers.step, part.buffer, buffers.input, buffers.output],
  );
  return { rows: part.rows, matvec, matmul, group };
}
