import { AllocationError } from './buffer-owner.ts';
import type { Gpu } from './gpu.ts';
import { rowWords } from './row-words.ts';

/** Modules of one input at most: query, key and value. */
const MOST_MODULES = 3;
/** Words of K that one thread sums, in shaders/low-rank-shrink.wgsl. */
const SPLIT_WORDS = 128;

/** Matrices that have one input, and how large updates of them can be. */
export interface LowRankShape {
  readonly label: string;
  /** Of the input. */
  readonly columns: number;
  /** Outputs of each, 1 … 3 of them; they lie one behind the other. */
  readonly outputs: readonly number[];
  /** Of each one's update. */
  readonly maxRank: number;
  /** Adapters that can be there at once. */
  readonly slots: number;
  /** Of modules whose outputs become pairs, rows i and i + half of each 2 · half: a module's is a multiple of that. */
  readonly half?: number | undefined;
}

/** What is added to a matrix: B · A. */
export interface LowRankMatrices {
  readonly rank: number;
  /** [rank, columns] */
  readonly a: Float32Array;
  /** [outputs, rank] */
  readonly b: Float32Array;
}

/** Words of four that a module's outputs take: a thread has two. */
function moduleWords(outputs: number): number {
  return 2 * Math.ceil(outputs / 8);
}

/** Words of four that a shape's outputs take, each module's from an even word on. */
export function outputWords({ outputs }: Pick<LowRankShape, 'outputs'>): number {
  return outputs.reduce((sum, count) => sum + moduleWords(count), 0);
}

/** Which number of its module's words output `i` is. */
function placeOf(i: number, half: number | undefined): number {
  if (half === undefined) return i;
  const within = i % (2 * half);
  const second = within >= half;
  const pair = (i - within) / 2 + (second ? within - half : within);
  // Four firsts, then their seconds.
  return (pair >> 2) * 8 + (pair & 3) + (second ? 4 : 0);
}

/** How many threads sum a rank of a row. */
export function shrinkSplits({ columns }: Pick<LowRankShape, 'columns'>): { splits: number; splitWords: number } {
  const words = rowWords(columns);
  const splits = Math.ceil(words / SPLIT_WORDS);
  return { splits, splitWords: Math.ceil(words / splits) };
}

/** Numbers of what shrinking leaves of a row. */
export function shrunkNumbers(shape: LowRankShape): number {
  return shrinkSplits(shape).splits * shape.outputs.length * rowWords(shape.maxRank) * 4;
}

/** Bytes that the slots of a shape take. */
export function lowRankBytes(shape: Omit<LowRankShape, 'label' | 'half'>): number {
  const { columns, outputs, maxRank, slots } = shape;
  const counts = rowWords(slots * outputs.length) * 16;
  return slots * rowWords(maxRank) * 64 * (rowWords(columns) * outputs.length + outputWords(shape)) + counts;
}

/** Adapters' updates of matrices with one input, one a slot; overwritten while others run. */
export class LowRankSlots {
  readonly shape: LowRankShape;
  /** As shaders/low-rank-*.wgsl have them. */
  readonly a: GPUBuffer;
  readonly b: GPUBuffer;
  readonly counts: GPUBuffer;
  readonly #queue: GPUQueue;

  private constructor(shape: LowRankShape, a: GPUBuffer, b: GPUBuffer, counts: GPUBuffer, queue: GPUQueue) {
    this.shape = shape;
    this.a = a;
    this.b = b;
    this.counts = counts;
    this.#queue = queue;
  }

  /** Empty slots. Rejects with AllocationError, with nothing kept. */
  static async create(gpu: Gpu, shape: LowRankShape): Promise<LowRankSlots> {
    const { label, columns, outputs, maxRank, slots, half } = shape;
    if (outputs.length < 1 || outputs.length > MOST_MODULES)
      throw new RangeError(`${label}: ${outputs.length} modules`);
    if (half !== undefined && outputs.some((count) => count % (2 * half) !== 0))
      throw new RangeError(`${label}: ${outputs.join(', ')} outputs in pairs ${half} apart`);
    const allocate = async (what: string, bytes: number) => {
      if (bytes > gpu.bindingLimit) {
        const asked = `${slots} adapters of rank ${maxRank}: ${bytes} bytes`;
        throw new AllocationError(`${label}: ${what} of ${asked} are over the binding limit of ${gpu.bindingLimit}`);
      }
      return gpu.storage(`${label}: ${what} of adapters`, bytes);
    };
    const sizes = [
      ['A', slots * rowWords(maxRank) * outputs.length * rowWords(columns) * 64],
      ['B', slots * rowWords(maxRank) * outputWords(shape) * 64],
      ['ranks', slots * outputs.length * 4],
    ] as const;
    const made: GPUBuffer[] = [];
    try {
      for (const [what, bytes] of sizes) made.push(await allocate(what, bytes));
    } catch (error) {
      for (const buffer of made) gpu.buffers.free(buffer);
      throw error;
    }
    const [a, b, counts] = made as [GPUBuffer, GPUBuffer, GPUBuffer];
    return new LowRankSlots(shape, a, b, counts, gpu.device.queue);
  }

  /** Puts one adapter's updates into `slot`, module by module; undefined: it leaves the module alone. By the queue. */
  write(slot: number, updates: readonly (LowRankMatrices | undefined)[]): void {
    const { label, columns, outputs, maxRank, slots, half } = this.shape;
    if (!(slot >= 0 && slot < slots)) throw new RangeError(`${label}: adapter slot ${slot} of ${slots}`);
    const words = rowWords(columns);
    // By four ranks and four of K, or of outputs; with zeros past an adapter's own.
    const most = 4 * rowWords(maxRank);
    const ranks = outputs.length * most;
    const allOutputs = outputWords(this.shape);
    const a = new Float32Array(4 * words * ranks);
    const b = new Float32Array(most * allOutputs * 4);
    let firstWord = 0;
    outputs.forEach((count, module) => {
      const update = updates[module];
      if (update) {
        checkUpdate(update, columns, count, this.shape);
        for (let j = 0; j < update.rank; j++) {
          const rankWord = (module * most + j) >> 2;
          for (let k = 0; k < columns; k++)
            a[(((k >> 2) * (ranks >> 2) + rankWord) * 4 + (k & 3)) * 4 + (j & 3)] = update.a[j * columns + k]!;
          const row = ((j >> 2) * allOutputs + firstWord) * 4 + (j & 3);
          for (let i = 0; i < count; i++) {
            const place = placeOf(i, half);
            b[(row + (place >> 2) * 4) * 4 + (place & 3)] = update.b[i * update.rank + j]!;
          }
        }
      }
      firstWord += moduleWords(count);
    });
    this.#queue.writeBuffer(this.a, slot * a.byteLength, a);
    this.#queue.writeBuffer(this.b, slot * b.byteLength, b);
    const counts = Uint32Array.from(outputs, (_, module) => updates[module]?.rank ?? 0);
    this.#queue.writeBuffer(this.counts, slot * counts.byteLength, counts);
  }
}

function checkUpdate({ rank, a, b }: LowRankMatrices, columns: number, outputs: number, shape: LowRankShape): void {
  if (rank > shape.maxRank || a.length !== rank * columns || b.length !== outputs * rank) {
    throw new RangeError(
      `${shape.label}: ${a.length} and ${b.length} numbers of rank ${rank}, at most ${shape.maxRank}`,
    );
  }
}
