import type { Gpu } from './gpu.ts';
import { tellWork } from './kernel-work.ts';
import {
  type ChooseLinear,
  checkChoice,
  type LinearChoice,
  type LinearPartShape,
  MATVEC_COLUMNS,
} from './linear-choice.ts';
import { LinearKernel } from './linear-kernel.ts';
import type { LinearForm, LinearVariant } from './linear-variant.ts';
import { squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';
import { FIRST_TABLE_WORD, STEP_HEADER } from './step-layout.ts';
import { type MatrixFormat, wordsOfRow } from './weight-format.ts';
import type { MatrixPart, WeightMatrix } from './weight-matrix.ts';

export interface LinearBuffers {
  readonly step: GPUBuffer;
  /** [columns, matrix columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [columns, outputStride] f32; of `rotate` the query, [columns, heads, headSize]. */
  readonly output: GPUBuffer;
}

/** What becomes of the sums; see LinearForm. */
export type LinearFinish =
  | {
      readonly kind: 'store';
      /** [rows padded to 4] f32, added to the sums. */
      readonly bias?: GPUBuffer | undefined;
      /** Multiplies sums with their bias; default: 1. */
      readonly scale?: number;
      /** Then x becomes cap · tanh(x / cap); default: it doesn't. */
      readonly cap?: number | undefined;
    }
  | { readonly kind: 'add'; readonly bias?: GPUBuffer | undefined; readonly scale?: number }
  | {
      readonly kind: 'gate';
      /** Default: SiLU. */
      readonly activation?: GateActivation;
    }
  | {
      readonly kind: 'emit';
      /** Multiplies what is added; default: 1. */
      readonly scale?: number;
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
      /** Of ropeTable, for whole heads; absent: queries and keys aren't rotated. */
      readonly table: GPUBuffer | undefined;
      /** [blocks, 2, kvHeads, 16, headSize] f32. */
      readonly kv: GPUBuffer;
      /** Default: that of KV group 0. */
      readonly tableWord?: number;
    };

/** Activations that the finish `gate` computes. */
export type GateActivation = 'silu' | 'gelu-tanh';

export interface LinearShape {
  /** Numbers from one column of `output` to the next. */
  readonly outputStride: number;
  /** Which word of the step's header counts the columns. */
  readonly countWord: number;
  /** The first column of `input` to take; it is column 0 of `output`. */
  readonly firstColumn?: number;
  /** Most columns it is ever computed of; absent: more than a matrix-vector product takes. */
  readonly mostColumns?: number;
  /** Default: store. */
  readonly finish?: LinearFinish;
  /** The input is yet to be divided by its root mean square, whose squares are here; see shaders/norm-input.wgsl. */
  readonly norm?: { readonly epsilon: number; readonly squares: GPUBuffer };
}

/** By number of columns, from 1 on; and for more. */
interface LinearKernels {
  readonly matvec: LinearKernel[];
  matmul: LinearKernel;
}

interface LinearPart {
  readonly tiles: number;
  /** Those that are there; others stand in for those that are compiled late. */
  readonly kernels: LinearKernels;
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
    choose: ChooseLinear = gpu.choices.linear,
  ): Promise<Linear> {
    const { kind } = shape.finish ?? { kind: 'store' };
    if (matrix.paired !== (kind === 'gate' || kind === 'rotate')) {
      throw new RangeError(`${kind} of a matrix whose rows are ${matrix.paired ? '' : 'not '}paired`);
    }
    return new Linear(
      await Promise.all(matrix.parts.map((part) => bindPart(gpu, matrix, part, shape, buffers, choose))),
    );
  }

  /** Compiles what products of such a part will ask for at once, so that it needn't wait for the weights. */
  static async compile(gpu: Gpu, part: LinearPartShape, form: LinearForm, mostColumns?: number): Promise<void> {
    await compileFirst(gpu, part.format, form, gpu.choices.linear(part, form), mostColumns);
  }

  /** `kernel` is for tests: by default the number of columns decides. */
  encode(
    pass: GPUComputePassEncoder,
    columns: number,
    kernel: 'matvec' | 'matmul' = columns <= MATVEC_COLUMNS.at(-1)! ? 'matvec' : 'matmul',
  ): void {
    if (columns === 0) return;
    for (const part of this.#parts) {
      const { matvec, matmul } = part.kernels;
      const variant = kernel === 'matvec' ? matvec[columns - 1]! : matmul;
      variant.encode(pass, part.group, part.tiles, columns);
    }
  }
}

function partShape({ columns }: WeightMatrix, { tiles, format }: MatrixPart): LinearPartShape {
  return { tiles, columns, format };
}

/**
 * One kernel that stands in for all: that of many columns where there are ever more than a matrix-vector product takes,
 * since a prompt comes first, else that of one. It computes any number of columns, and all that are chosen give the same
 * bits, but for fragments, beside which that of one column is there at once.
 */
async function compileFirst(
  gpu: Gpu,
  format: MatrixFormat,
  form: LinearForm,
  { matvec, matmul }: LinearChoice,
  mostColumns = Number.POSITIVE_INFINITY,
): Promise<LinearKernels> {
  const compile = (variant: LinearVariant) => LinearKernel.compile(gpu, format, variant, form);
  const many = mostColumns > matvec.length;
  const [first, fragments] = await Promise.all([
    compile(many && matmul.path !== 'matrix' ? matmul : matvec[0]!),
    many && matmul.path === 'matrix' ? compile(matmul) : undefined,
  ]);
  return { matvec: matvec.map(() => first), matmul: fragments ?? first };
}

/** Puts all that was chosen in its place; that of one column first, by which a sequence decodes. */
async function compileRest(
  gpu: Gpu,
  format: MatrixFormat,
  form: LinearForm,
  choice: LinearChoice,
  kernels: LinearKernels,
): Promise<void> {
  const compile = (variant: LinearVariant) => LinearKernel.compile(gpu, format, variant, form);
  await gpu.late(async () => {
    kernels.matvec[0] = await compile(choice.matvec[0]!);
  }, 'soon');
  await gpu.late(async () => {
    for (const [i, variant] of choice.matvec.entries()) kernels.matvec[i] = await compile(variant);
    kernels.matmul = await compile(choice.matmul);
  });
}

async function bindPart(
  gpu: Gpu,
  matrix: WeightMatrix,
  part: MatrixPart,
  shape: LinearShape,
  buffers: LinearBuffers,
  choose: ChooseLinear,
): Promise<LinearPart> {
  const { finish = { kind: 'store' }, norm } = shape;
  const form: LinearForm = { finish: finish.kind, normed: norm !== undefined };
  const choice = choose(partShape(matrix, part), form);
  const { splits } = choice;
  const words = wordsOfRow(part.format, matrix.columns);
  checkChoice(choice);
  const kernels = await compileFirst(gpu, part.format, form, choice, shape.mostColumns);
  await compileRest(gpu, part.format, form, choice, kernels);
  const [weights, ...scales] = part.planes;
  const unused = await gpu.placeholder();
  const { extras = [], reads, writes, sums, scale = 1, capScale = 0 } = finishParts(finish);
  const [gateLinear, gateCubic] = GATES[finish.kind === 'gate' ? (finish.activation ?? 'silu') : 'silu'];
  const biased = 'bias' in finish && finish.bias !== undefined;
  const group = await kernels.matmul.kernel.bind(
    [
      // Pairs are numbered through all parts, and rows in each.
      matrix.paired ? part.firstRow + part.rows : part.rows,
      ...[words, Math.ceil(words / splits), rowWords(matrix.columns)],
      ...[shape.outputStride, part.firstRow, shape.countWord, shape.firstColumn ?? 0, part.tiles],
      ...[norm ? matrix.columns : 0, { f32: norm?.epsilon ?? 0 }],
      squaresWords(norm ? matrix.columns : matrix.rows),
      FINISHES.indexOf(finish.kind),
      ...Array.from({ length: 5 }, (_, i) => extras[i] ?? 0),
      ...[biased ? 1 : 0, { f32: capScale }, { f32: scale }, { f32: gateLinear }, { f32: gateCubic }],
    ],
    [
      ...[buffers.step, weights!, buffers.input, buffers.output],
      ...[reads ?? buffers.step, writes ?? unused[0], norm?.squares ?? sums ?? unused[1]],
      ...scales,
    ],
  );
  const partRows = matrix.paired ? 2 * part.rows : part.rows;
  tellWork(group, {
    what: `${norm ? 'normed ' : ''}${finish.kind} ${partRows} × ${matrix.columns}`,
    bytes: part.planes.reduce((sum, { size }) => sum + size, 0),
    flops: 2 * partRows * matrix.columns,
    columns: shape.countWord === STEP_HEADER.logits ? 'logits' : 'rows',
    firstColumn: shape.firstColumn ?? 0,
  });
  return { tiles: part.tiles, kernels, group };
}

/** In the order of linear.wgsl's FINISH_*. */
const FINISHES: readonly LinearForm['finish'][] = ['store', 'add', 'emit', 'gate', 'rotate'];

/** Factors of x and x³ in the sigmoid that multiplies x: GELU's tanh form is x · sigmoid(2 √(2/π) (x + 0.044715 x³)). */
export const GATES: Readonly<Record<GateActivation, readonly [linear: number, cubic: number]>> = {
  silu: [1, 0],
  'gelu-tanh': [2 * Math.sqrt(2 / Math.PI), 2 * Math.sqrt(2 / Math.PI) * 0.044715],
};

/** What a finish asks for beside input and output. */
interface FinishParts {
  /** The uniform's extra fields. */
  readonly extras?: readonly number[];
  readonly reads?: GPUBuffer | undefined;
  readonly writes?: GPUBuffer;
  /** Where sums of squares go. */
  readonly sums?: GPUBuffer;
  readonly scale?: number;
  readonly capScale?: number;
}

function finishParts(finish: LinearFinish): FinishParts {
  switch (finish.kind) {
    case 'store': {
      const { bias, scale = 1, cap } = finish;
      return cap === undefined ? { reads: bias, scale } : { reads: bias, scale: cap, capScale: scale / cap };
    }
    case 'add':
      return { reads: finish.bias, scale: finish.scale ?? 1 };
    case 'emit':
      return { reads: finish.gain, writes: finish.scaled, sums: finish.squares, scale: finish.scale ?? 1 };
    case 'gate':
      return {};
    case 'rotate': {
      const { heads, kvHeads, headSize, table, kv, tableWord = FIRST_TABLE_WORD } = finish;
      const turned = table ? heads + kvHeads : 0;
      return { extras: [heads, kvHeads, headSize / 2, turned, tableWord], reads: table, writes: kv };
    }
  }
}
