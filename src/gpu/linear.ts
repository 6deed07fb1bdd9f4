import type { Gpu } from './gpu.ts';
import type { UniformField } from './kernel.ts';
import { type LinearForm, LinearKernel, type LinearVariant } from './linear-variant.ts';
import { squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';
import { isQuantFormat, type MatrixFormat, TILE_ROWS, wordsOfRow } from './weight-format.ts';
import type { MatrixPart, WeightMatrix } from './weight-matrix.ts';

/** Products of up to so many columns may have a variant each; more share one. */
export const MATVEC_COLUMNS = [1, 2, 3, 4, 5, 6, 7, 8] as const;

export interface LinearBuffers {
  readonly step: GPUBuffer;
  /** [columns, matrix columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [columns, outputStride] f32; of `rotate` the query, [columns, heads, headSize]. */
  readonly output: GPUBuffer;
}

/** What becomes of the sums; see LinearForm. */
export type LinearFinish =
  | { readonly kind: 'store' | 'add' | 'gate' }
  | {
      readonly kind: 'emit';
      /** The next norm's weights, [rows padded to 4] f32. */
      readonly gain: GPUBuffer;
      /** Like the output. */
      readonly scaled: GPUBuffer;
      /** [columns, squaresWords(rows)] vec4. */
      readonly squares: GPUBuffer;
    }
  | {
      readonly kind: 'rotate';
      readonly heads: number;
      readonly kvHeads: number;
      readonly headSize: number;
      /** Of ropeTable. */
      readonly table: GPUBuffer;
      /** [blocks, 2, kvHeads, 16, headSize] f32. */
      readonly kv: GPUBuffer;
    };

export interface LinearShape {
  /** Numbers from one column of `output` to the next. */
  readonly outputStride: number;
  /** Which word of the step's header counts the columns. */
  readonly countWord: number;
  /** The first column of `input` to take; it is column 0 of `output`. */
  readonly firstColumn?: number;
  /** Parts of K that are summed by themselves; default: 1. Sums differ in their last digits between numbers of splits. */
  readonly splits?: number;
  /** Default: store. */
  readonly finish?: LinearFinish;
  /** The input is yet to be divided by its root mean square, whose squares are here; see shaders/norm-input.wgsl. */
  readonly norm?: { readonly epsilon: number; readonly squares: GPUBuffer };
}

/** Which variants a product is made of. */
export interface LinearChoice {
  /** For 1, 2 … 8 columns. */
  readonly matvec: readonly LinearVariant[];
  /** For more. */
  readonly matmul: LinearVariant;
}

interface LinearPart {
  readonly tiles: number;
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
    choose: Choose = chooseFor(gpu),
  ): Promise<Linear> {
    const { kind } = shape.finish ?? { kind: 'store' };
    if (matrix.paired !== (kind === 'gate' || kind === 'rotate')) {
      throw new RangeError(`${kind} of a matrix whose rows are ${matrix.paired ? '' : 'not '}paired`);
    }
    return new Linear(
      await Promise.all(matrix.parts.map((part) => bindPart(gpu, matrix, part, shape, buffers, choose))),
    );
  }

  /** Compiles what products with `matrix` in this form will ask for, so that it needn't wait for the weights. */
  static async compile(gpu: Gpu, matrix: WeightMatrix, form: LinearForm): Promise<void> {
    await Promise.all(matrix.parts.map((part) => compileVariants(gpu, part, form, chooseFor(gpu)(part, form))));
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
      variant.encode(pass, part.group, part.tiles, columns);
    }
  }
}

/**
 * A thread walks all of K. As many accumulators as registers hold, and few enough to compile fast; where columns are
 * more than a thread's, others take them. Workgroups are small where rows are few.
 */
export function defaultChoice(
  { tiles, format }: { readonly tiles: number; readonly format: MatrixFormat },
  { finish }: LinearForm,
  subgroups: boolean,
): LinearChoice {
  const variant = (rows: number, columns: number): LinearVariant => {
    const rowThreads = (tiles * TILE_ROWS) / rows;
    // Some 16 workgroups at least keep every core busy to the end.
    const threads = [64, 32, 16].find((width) => rowThreads >= 16 * width) ?? 8;
    return { rows, columns, threads, splitThreads: 1, quads: subgroups && isQuantFormat(format) };
  };
  const wide = isQuantFormat(format) || finish === 'emit';
  const single = variant(8, 1);
  const pair = variant(wide ? 8 : 4, 2);
  const many = variant(8, 4);
  return {
    matvec: MATVEC_COLUMNS.map((columns) => (columns === 1 ? single : columns < 3 ? pair : many)),
    matmul: many,
  };
}

type Choose = (part: MatrixPart, form: LinearForm) => LinearChoice;

function chooseFor(gpu: Gpu): Choose {
  return (part, form) => defaultChoice(part, form, gpu.device.features.has('subgroups'));
}

/** The matmul, then the matrix-vector variants. */
function compileVariants(gpu: Gpu, part: MatrixPart, form: LinearForm, choice: LinearChoice): Promise<LinearKernel[]> {
  return Promise.all(
    [choice.matmul, ...choice.matvec].map((variant) => LinearKernel.compile(gpu, part.format, variant, form)),
  );
}

async function bindPart(
  gpu: Gpu,
  matrix: WeightMatrix,
  part: MatrixPart,
  shape: LinearShape,
  buffers: LinearBuffers,
  choose: Choose,
): Promise<LinearPart> {
  const { finish = { kind: 'store' }, norm, splits = 1 } = shape;
  const form: LinearForm = { finish: finish.kind, normed: norm !== undefined };
  const choice = choose(part, form);
  const words = wordsOfRow(part.format, matrix.columns);
  for (const { splitThreads } of [choice.matmul, ...choice.matvec]) {
    if (splitThreads !== 1 && splitThreads !== splits) {
      throw new RangeError(`${splitThreads} threads along K for ${splits} splits`);
    }
  }
  const [matmul, ...matvec] = await compileVariants(gpu, part, form, choice);
  const [weights, ...scales] = part.planes;
  const [fields, more] = finishParts(finish);
  const group = await matmul!.kernel.bind(
    [
      // Pairs are numbered through all parts, and rows in each.
      matrix.paired ? part.firstRow + part.rows : part.rows,
      ...[words, Math.ceil(words / splits), rowWords(matrix.columns)],
      ...[shape.outputStride, part.firstRow, shape.countWord, shape.firstColumn ?? 0, part.tiles],
      ...[matrix.columns, { f32: norm?.epsilon ?? 0 }],
      squaresWords(norm ? matrix.columns : matrix.rows),
      ...fields,
    ],
    [buffers.step, weights!, buffers.input, buffers.output, ...more, ...(norm ? [norm.squares] : []), ...scales],
  );
  return { tiles: part.tiles, matvec, matmul: matmul!, group };
}

/** The uniform's last fields, and the buffers after the output. */
function finishParts(finish: LinearFinish): [readonly UniformField[], readonly GPUBuffer[]] {
  switch (finish.kind) {
    case 'emit':
      return [
        [0, 0, 0],
        [finish.gain, finish.scaled, finish.squares],
      ];
    case 'rotate':
      return [
        [finish.heads, finish.kvHeads, finish.headSize / 2],
        [finish.table, finish.kv],
      ];
    default:
      return [[0, 0, 0], []];
  }
}
