import activationCode from '../../shaders/activation.wgsl?raw';
import expandCode from '../../shaders/low-rank-expand.wgsl?raw';
import shrinkCode from '../../shaders/low-rank-shrink.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel, type UniformField } from './kernel.ts';
import { tellWork } from './kernel-work.ts';
import { GATES, type LinearFinish } from './linear.ts';
import { type LowRankSlots, outputWords, shrinkSplits, shrunkNumbers } from './low-rank-slots.ts';
import { squaresWords } from './norm-input.ts';
import type { BindingKind } from './pipeline-cache.ts';
import { rowThreads } from './row-threads.ts';
import { rowWords } from './row-words.ts';
import { FIRST_TABLE_WORD } from './step-layout.ts';
import { expandTemplate } from './template.ts';
import { TILE_ROWS } from './weight-format.ts';
import type { MatrixPart, WeightMatrix } from './weight-matrix.ts';

export interface LowRankBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [rows, shrunkNumbers] f32: scratch. */
  readonly shrunk: GPUBuffer;
  /** [rows, outputStride] f32; of `rotate` the query, [rows, heads, headSize]. */
  readonly output: GPUBuffer;
}

/** See MatrixPart. */
type TiledPart = Pick<MatrixPart, 'firstRow' | 'rows' | 'tiles'>;

/** A product's rows as a paired matrix's tiles have them. */
export interface TiledRows {
  /** [rows, tiles · 64] f32. */
  readonly tiles: GPUBuffer;
  readonly matrix: { readonly parts: readonly TiledPart[] };
}

type Finish<K> = Extract<LinearFinish, { kind: K }>;

/** What becomes of sums: `output` is added to, or they are those in tiles, and are finished as their product would. */
export type LowRankFinish =
  | {
      readonly kind: 'add';
      /** Numbers from one row of `output` to the next. */
      readonly outputStride: number;
      /** Multiplies what is added; default 1. */
      readonly scale?: number;
    }
  | (Finish<'gate'> & TiledRows & { readonly outputStride: number })
  | (Finish<'rotate'> & TiledRows);

export interface LowRankOptions {
  /** The input is yet to be divided by its root mean square; see LinearShape. */
  readonly norm?: { readonly epsilon: number; readonly squares: GPUBuffer } | undefined;
  readonly finish: LowRankFinish;
}

interface Dispatch {
  readonly kernel: Kernel;
  readonly group: GPUBindGroup;
  /** Of a row. */
  readonly threads: number;
}

/**
 * Adds to rows that have an adapter what their adapter makes of their input, B · (A · x), in two dispatches; see
 * shaders/low-rank-*.wgsl. Rows of one dispatch may have different adapters; those without keep the bits they have.
 */
export class LowRankUpdate {
  readonly #dispatches: readonly Dispatch[];

  private constructor(dispatches: readonly Dispatch[]) {
    this.#dispatches = dispatches;
  }

  /** Of `rotate`, slots have their outputs in pairs. */
  static async create(
    gpu: Gpu,
    slots: LowRankSlots,
    { norm, finish }: LowRankOptions,
    { step, input, shrunk, output }: LowRankBuffers,
  ): Promise<LowRankUpdate> {
    const { label, columns, outputs, maxRank, half } = slots.shape;
    if (half !== (finish.kind === 'rotate' ? finish.headSize / 2 : undefined))
      throw new RangeError(`${label}: outputs in pairs ${half} apart, to ${finish.kind}`);
    const [shrink, expand] = await Promise.all([compileShrink(gpu), compileExpand(gpu, finish.kind)]);
    const { splits, splitWords } = shrinkSplits(slots.shape);
    const [words, rankWords, modules] = [outputWords(slots.shape), rowWords(maxRank), outputs.length];
    const normFields = [norm ? columns : 0, { f32: norm?.epsilon ?? 0 }, squaresWords(norm ? columns : 0)];
    const { fields, buffers } = finishParts(finish, outputs);
    const [shrinkGroup, expandGroup] = await Promise.all([
      shrink.bind(
        [rowWords(columns), splitWords, splits, modules, rankWords, ...normFields],
        [step, input, slots.a, slots.counts, norm?.squares ?? input, shrunk],
      ),
      expand.bind(
        [words, rankWords, modules, splits, ...fields],
        [step, shrunk, slots.b, slots.counts, output, ...buffers],
      ),
    ]);
    const allOutputs = outputs.reduce((sum, count) => sum + count, 0);
    // At least one adapter's; of one that has all ranks.
    const tell = (group: GPUBindGroup, what: string, numbers: number) =>
      tellWork(group, {
        ...{ what: `${what} of ${label}`, bytes: 4 * maxRank * numbers, flops: 2 * maxRank * numbers },
        ...{ columns: 'rows', firstColumn: 0 },
      });
    tell(shrinkGroup, 'shrink', modules * columns);
    tell(expandGroup, 'expand', allOutputs);
    return new LowRankUpdate([
      { kernel: shrink, group: shrinkGroup, threads: shrunkNumbers(slots.shape) / 4 },
      { kernel: expand, group: expandGroup, threads: words / threadWords(finish.kind) },
    ]);
  }

  /** With all finishes. */
  static compile(gpu: Gpu): Promise<unknown> {
    return Promise.all([
      compileShrink(gpu),
      ...(['add', 'gate', 'rotate'] as const).map((kind) => compileExpand(gpu, kind)),
    ]);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    for (const { kernel, group, threads } of this.#dispatches) kernel.dispatchThreads(pass, group, rows * threads);
  }
}

function compileShrink(gpu: Gpu): Promise<Kernel> {
  const threads = rowThreads(gpu);
  return Kernel.compile(gpu, {
    name: 'low-rank-shrink',
    code: [stepCode, shrinkCode],
    constants: { THREADS: threads },
    bindings: ['uniform', 'read', 'read', 'read', 'read', 'read', 'write'],
    threads,
  });
}

const MORE_BINDINGS: Readonly<Record<LowRankFinish['kind'], readonly BindingKind[]>> = {
  add: [],
  gate: ['read'],
  rotate: ['read', 'read', 'write'],
};

/** Words of B that a thread of expanding has: two, of gate and up each. */
function threadWords(kind: LowRankFinish['kind']): number {
  return kind === 'gate' ? 4 : 2;
}

function compileExpand(gpu: Gpu, kind: LowRankFinish['kind']): Promise<Kernel> {
  const threads = rowThreads(gpu);
  const counts = {
    ADD: kind === 'add' ? 1 : 0,
    GATE: kind === 'gate' ? 1 : 0,
    ROTATE: kind === 'rotate' ? 1 : 0,
    TILES: kind === 'add' ? 0 : 1,
  };
  return Kernel.compile(gpu, {
    name: `low-rank-expand ${kind}`,
    code: [stepCode, ...(kind === 'gate' ? [activationCode] : []), expandTemplate(expandCode, counts)],
    constants: { THREADS: threads, THREAD_WORDS: threadWords(kind) },
    bindings: ['uniform', 'read', 'read', 'read', 'read', 'write', ...MORE_BINDINGS[kind]],
    threads,
  });
}

/** What a finish asks for beside input and output; of modules with so many outputs. */
function finishParts(
  finish: LowRankFinish,
  outputs: readonly number[],
): { fields: readonly UniformField[]; buffers: readonly GPUBuffer[] } {
  switch (finish.kind) {
    case 'add': {
      const { outputStride, scale = 1 } = finish;
      return { fields: [outputStride, { f32: scale }, ...[0, 1, 2].map((i) => outputs[i] ?? 0)], buffers: [] };
    }
    case 'gate': {
      const { outputStride, activation = 'silu', tiles, matrix } = finish;
      const [linear, cubic] = GATES[activation];
      return {
        fields: [outputStride, outputs[0]!, tiledNumbers(matrix), { f32: linear }, { f32: cubic }],
        buffers: [tiles],
      };
    }
    case 'rotate': {
      const { heads, kvHeads, headSize, table, kv, tableWord = FIRST_TABLE_WORD, tiles, matrix } = finish;
      const half = headSize / 2;
      const [keys, values] = [heads, heads + kvHeads].map((head) => placeOfPair(matrix, head * half));
      return {
        fields: [
          ...[heads, kvHeads, half, table ? heads + kvHeads : 0, tableWord, tiledNumbers(matrix)],
          ...[keys!.pair, values!.pair, keys!.place, values!.place],
        ],
        buffers: [tiles, table ?? tiles, kv],
      };
    }
  }
}

/** A paired matrix with each row where it lies in the tiles: a product of it is what TiledRows hold. */
export function inTileOrder({ parts, columns, bytes }: WeightMatrix): WeightMatrix {
  let places = 0;
  const placed = parts.map((part) => {
    const firstRow = places;
    const rows = part.tiles * TILE_ROWS;
    places += rows;
    return { ...part, firstRow, rows };
  });
  return { rows: places, columns, parts: placed, bytes, paired: false };
}

/** Places of a tiled row. */
export function tiledNumbers({ parts }: TiledRows['matrix']): number {
  return parts.reduce((sum, { tiles }) => sum + tiles * TILE_ROWS, 0);
}

/** The first pair of the part that has `pair`, and that one's place: parts that a limit cuts off one another have whole tiles. */
function placeOfPair({ parts }: TiledRows['matrix'], pair: number): { pair: number; place: number } {
  let place = 0;
  for (const { firstRow, rows, tiles } of parts) {
    if (pair >= firstRow && pair < firstRow + rows) return { pair: firstRow, place };
    place += tiles * TILE_ROWS;
  }
  throw new RangeError(`pair ${pair} of a matrix that hasn't so many`);
}
