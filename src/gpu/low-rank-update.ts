import expandCode from '../../shaders/low-rank-expand.wgsl?raw';
import expandWordCode from '../../shaders/low-rank-expand-word.wgsl?raw';
import rowCode from '../../shaders/low-rank-row.wgsl?raw';
import shrinkCode from '../../shaders/low-rank-shrink.wgsl?raw';
import shrinkWordCode from '../../shaders/low-rank-shrink-word.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { tellWork } from './kernel-work.ts';
import {
  isRowWork,
  type LowRankSlots,
  outputWords,
  ROW_RANK_WORDS,
  shrinkSplits,
  shrunkNumbers,
} from './low-rank-slots.ts';
import { squaresWords } from './norm-input.ts';
import { playsGpu, rowThreads } from './row-threads.ts';
import { rowWords } from './row-words.ts';
import { TILE_ROWS } from './weight-format.ts';
import type { MatrixPart, WeightMatrix } from './weight-matrix.ts';

export interface LowRankBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [rows, shrunkNumbers] f32: scratch of the form that shrinks and expands. */
  readonly shrunk: GPUBuffer;
  /** [rows, outputStride] f32: it is added to. */
  readonly output: GPUBuffer;
}

/** See MatrixPart. */
type TiledPart = Pick<MatrixPart, 'firstRow' | 'rows' | 'tiles'>;

/** Rows of a product whose numbers lie as a paired matrix's tiles do: the sums, in place of `output`'s. */
export interface TiledRows {
  /** [rows, tiles · 64] f32. */
  readonly tiles: GPUBuffer;
  readonly matrix: { readonly parts: readonly TiledPart[] };
  /** Rows r and r + half of each 2 · half are pairs. */
  readonly half: number;
}

export interface LowRankOptions {
  /** Numbers from one row of `output` to the next. */
  readonly outputStride: number;
  /** Multiplies what is added; default 1. */
  readonly scale?: number;
  /** The input is yet to be divided by its root mean square; see LinearShape. */
  readonly norm?: { readonly epsilon: number; readonly squares: GPUBuffer };
  /** All rows come from here, those without an adapter too; absent: `output` has them. */
  readonly from?: TiledRows;
}

/**
 * How an update is computed; both give the same bits. On a processor that plays a GPU small ones go by `row`, in one dispatch:
 * see shaders/low-rank-row.wgsl.
 */
export type LowRankForm = 'row' | 'shrink and expand';

interface Dispatch {
  readonly kernel: Kernel;
  readonly group: GPUBindGroup;
  /** Of a row. */
  readonly threads: number;
}

/**
 * Adds to rows that have an adapter what their adapter makes of their input, B · (A · x); see shaders/low-rank-*.wgsl. Rows
 * of one dispatch may have different adapters; those without keep the bits they have.
 */
export class LowRankUpdate {
  readonly #dispatches: readonly Dispatch[];

  private constructor(dispatches: readonly Dispatch[]) {
    this.#dispatches = dispatches;
  }

  /** `form`: absent: what its shape makes faster. */
  static async create(
    gpu: Gpu,
    slots: LowRankSlots,
    options: LowRankOptions,
    buffers: LowRankBuffers,
    form: LowRankForm = playsGpu(gpu) && isRowWork(slots.shape) ? 'row' : 'shrink and expand',
  ): Promise<LowRankUpdate> {
    const { columns, outputs, maxRank } = slots.shape;
    const { step, input, shrunk, output } = buffers;
    const { norm, outputStride, scale = 1, from } = options;
    const { splits, splitWords } = shrinkSplits(slots.shape);
    const words = outputWords(slots.shape);
    const squares = norm?.squares ?? input;
    const tiles = from?.tiles ?? step;
    const shrinkFields = [
      ...[rowWords(columns), splitWords, splits, outputs.length, rowWords(maxRank)],
      ...[norm ? columns : 0, { f32: norm?.epsilon ?? 0 }, squaresWords(norm ? columns : 0)],
    ];
    const outputFields = [
      ...[outputStride, { f32: scale }, outputs[0]!, outputs[1] ?? 0, outputs[2] ?? 0],
      ...(from ? tileFields(from, outputs) : [0, 0, 0, 0, 0, 0, 0, 0]),
    ];
    const allOutputs = outputs.reduce((sum, count) => sum + count, 0);
    // At least one adapter's; of one that has all ranks.
    const shrinks = { bytes: 4 * outputs.length * maxRank * columns, flops: 2 * outputs.length * maxRank * columns };
    const expands = { bytes: 16 * maxRank * words, flops: 2 * maxRank * allOutputs };
    const tell = (group: GPUBindGroup, what: string, work: typeof shrinks) =>
      tellWork(group, { what: `${what} of ${slots.shape.label}`, ...work, columns: 'rows', firstColumn: 0 });
    if (form === 'row') {
      if (rowWords(maxRank) > ROW_RANK_WORDS) throw new RangeError(`${slots.shape.label}: too many ranks for a thread`);
      const kernel = await compileLowRankRow(gpu);
      const group = await kernel.bind(
        [...shrinkFields, words, ...outputFields],
        [step, input, slots.a, slots.counts, squares, slots.b, tiles, output],
      );
      tell(group, 'update', { bytes: shrinks.bytes + expands.bytes, flops: shrinks.flops + expands.flops });
      return new LowRankUpdate([{ kernel, group, threads: outputs.length }]);
    }
    const [shrink, expand] = await compilePair(gpu);
    const shrinkGroup = await shrink.bind(shrinkFields, [step, input, slots.a, slots.counts, squares, shrunk]);
    const expandGroup = await expand.bind(
      [words, rowWords(maxRank), outputs.length, splits, ...outputFields],
      [step, shrunk, slots.b, slots.counts, tiles, output],
    );
    tell(shrinkGroup, 'shrink', shrinks);
    tell(expandGroup, 'expand', expands);
    return new LowRankUpdate([
      { kernel: shrink, group: shrinkGroup, threads: shrunkNumbers(slots.shape) / 4 },
      { kernel: expand, group: expandGroup, threads: words },
    ]);
  }

  /** All forms that updates have on `gpu`. */
  static compile(gpu: Gpu): Promise<unknown> {
    return Promise.all([compilePair(gpu), ...(playsGpu(gpu) ? [compileLowRankRow(gpu)] : [])]);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    for (const { kernel, group, threads } of this.#dispatches) kernel.dispatchThreads(pass, group, rows * threads);
  }
}

/** Of the form that takes one dispatch. */
export function compileLowRankRow(gpu: Gpu): Promise<Kernel> {
  const threads = rowThreads(gpu);
  return Kernel.compile(gpu, {
    name: 'low-rank-row',
    code: [stepCode, shrinkWordCode, expandWordCode, rowCode],
    constants: { THREADS: threads, RANK_WORDS: ROW_RANK_WORDS },
    bindings: ['uniform', 'read', 'read', 'read', 'read', 'read', 'read', 'read', 'write'],
    threads,
  });
}

function compilePair(gpu: Gpu): Promise<[shrink: Kernel, expand: Kernel]> {
  const bindings = ['uniform', 'read', 'read', 'read', 'read', 'read', 'write'] as const;
  return Promise.all([
    Kernel.compile(gpu, { name: 'low-rank-shrink', code: [stepCode, shrinkWordCode, shrinkCode], bindings }),
    Kernel.compile(gpu, { name: 'low-rank-expand', code: [stepCode, expandWordCode, expandCode], bindings }),
  ]);
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

/** half, tilesStride, then each module's first pair and that one's place, as the part has them that its first row lies in. */
function tileFields({ matrix, half }: TiledRows, outputs: readonly number[]): number[] {
  const firstPairs = [0, 0, 0];
  const firstPlaces = [0, 0, 0];
  let row = 0;
  for (const [module, count] of outputs.entries()) {
    const inBlock = row % (2 * half);
    const pair = (row - inBlock) / 2 + (inBlock >= half ? inBlock - half : inBlock);
    let place = 0;
    for (const part of matrix.parts) {
      if (pair >= part.firstRow && pair < part.firstRow + part.rows) {
        firstPairs[module] = part.firstRow;
        firstPlaces[module] = place;
      }
      place += part.tiles * TILE_ROWS;
    }
    row += count;
  }
  return [half, tiledNumbers(matrix), ...firstPairs, ...firstPlaces];
}
