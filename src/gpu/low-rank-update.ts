import expandCode from '../../shaders/low-rank-expand.wgsl?raw';
import shrinkCode from '../../shaders/low-rank-shrink.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { tellWork } from './kernel-work.ts';
import { type LowRankSlots, outputWords, shrinkSplits, shrunkNumbers } from './low-rank-slots.ts';
import { squaresWords } from './norm-input.ts';
import { rowWords } from './row-words.ts';
import { TILE_ROWS } from './weight-format.ts';
import type { MatrixPart, WeightMatrix } from './weight-matrix.ts';

export interface LowRankBuffers {
  readonly step: GPUBuffer;
  /** [rows, columns padded to 4] f32. */
  readonly input: GPUBuffer;
  /** [rows, shrunkNumbers] f32: scratch. */
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
 * Adds to rows that have an adapter what their adapter makes of their input, B · (A · x), in two kernels; see
 * shaders/low-rank-*.wgsl. Rows of one dispatch may have different adapters; those without keep the bits they have.
 */
export class LowRankUpdate {
  readonly #shrink: Kernel;
  readonly #expand: Kernel;
  readonly #shrinkGroup: GPUBindGroup;
  readonly #expandGroup: GPUBindGroup;
  readonly #shrinkThreads: number;
  readonly #expandThreads: number;

  private constructor(
    kernels: readonly [Kernel, Kernel],
    groups: readonly [GPUBindGroup, GPUBindGroup],
    threads: readonly [number, number],
  ) {
    [this.#shrink, this.#expand] = kernels;
    [this.#shrinkGroup, this.#expandGroup] = groups;
    [this.#shrinkThreads, this.#expandThreads] = threads;
  }

  static async create(
    gpu: Gpu,
    slots: LowRankSlots,
    options: LowRankOptions,
    buffers: LowRankBuffers,
  ): Promise<LowRankUpdate> {
    const [shrink, expand] = await LowRankUpdate.compile(gpu);
    const { columns, outputs, maxRank } = slots.shape;
    const maxRankWords = rowWords(maxRank);
    const { norm, outputStride, scale = 1, from } = options;
    const { splits, splitWords } = shrinkSplits(slots.shape);
    const words = outputWords(slots.shape);
    const shrinkGroup = await shrink.bind(
      [
        ...[rowWords(columns), splitWords, splits, outputs.length, maxRankWords],
        ...[norm ? columns : 0, { f32: norm?.epsilon ?? 0 }, squaresWords(norm ? columns : 0)],
      ],
      [buffers.step, buffers.input, slots.a, slots.counts, norm?.squares ?? buffers.input, buffers.shrunk],
    );
    const expandGroup = await expand.bind(
      [
        ...[words, maxRankWords, outputs.length, splits, outputStride, { f32: scale }],
        ...[outputs[0]!, outputs[1] ?? 0, outputs[2] ?? 0],
        ...(from ? tileFields(from, outputs) : [0, 0, 0, 0, 0, 0, 0, 0]),
      ],
      [buffers.step, buffers.shrunk, slots.b, slots.counts, from?.tiles ?? buffers.step, buffers.output],
    );
    const ranks = outputs.length * maxRank;
    const allOutputs = outputs.reduce((sum, count) => sum + count, 0);
    // At least one adapter's; of one that has all ranks.
    const tell = (group: GPUBindGroup, what: string, bytes: number, flops: number) =>
      tellWork(group, { what: `${what} of ${slots.shape.label}`, bytes, flops, columns: 'rows', firstColumn: 0 });
    tell(shrinkGroup, 'shrink', 4 * ranks * columns, 2 * ranks * columns);
    tell(expandGroup, 'expand', maxRank * words * 16, 2 * maxRank * allOutputs);
    return new LowRankUpdate([shrink, expand], [shrinkGroup, expandGroup], [shrunkNumbers(slots.shape) / 4, words]);
  }

  static compile(gpu: Gpu): Promise<[shrink: Kernel, expand: Kernel]> {
    const bindings = ['uniform', 'read', 'read', 'read', 'read', 'read', 'write'] as const;
    return Promise.all([
      Kernel.compile(gpu, { name: 'low-rank-shrink', code: [stepCode, shrinkCode], bindings }),
      Kernel.compile(gpu, { name: 'low-rank-expand', code: [stepCode, expandCode], bindings }),
    ]);
  }

  encode(pass: GPUComputePassEncoder, rows: number): void {
    this.#shrink.dispatchThreads(pass, this.#shrinkGroup, rows * this.#shrinkThreads);
    this.#expand.dispatchThreads(pass, this.#expandGroup, rows * this.#expandThreads);
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
