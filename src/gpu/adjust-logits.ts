import adjustCode from '../../shaders/adjust-logits.wgsl?raw';
import keyCode from '../../shaders/logit-key.wgsl?raw';
import maskCode from '../../shaders/mask-logits.wgsl?raw';
import maskWordsCode from '../../shaders/mask-words.wgsl?raw';
import maskAnyWordsCode from '../../shaders/mask-words-any.wgsl?raw';
import maskedCode from '../../shaders/masked-logit.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';
import { rowThreads } from './row-threads.ts';

export interface AdjustShape {
  readonly vocabulary: number;
  /** Logits rows of one tile. */
  readonly tileRows: number;
  /** Logits rows of one step. */
  readonly maxLogitsRows: number;
  /** Different ids that one slot counts. */
  readonly maxCounted: number;
  /** Biases of one slot. */
  readonly maxBiases: number;
}

export interface AdjustBuffers {
  readonly step: GPUBuffer;
  /** [tileRows, vocabulary] f32. */
  readonly logits: GPUBuffer;
  /** [maxSequences] u32: the id each slot sampled last. */
  readonly lastIds: GPUBuffer;
  /** [maxSequences, SLOT_WORDS] u32. */
  readonly slots: GPUBuffer;
  /** [maxSequences, maxCounted, 2] u32. */
  readonly counted: GPUBuffer;
  /** [maxSequences, maxBiases, 2] u32. */
  readonly biases: GPUBuffer;
  /** [maxSequences, ceil(vocabulary / 32)] u32. */
  readonly stops: GPUBuffer;
  /** [maxSequences, ceil(vocabulary / 32)] u32. */
  readonly masks: GPUBuffer;
}

/** What a row of a tile asks for; decides which kernels run. */
export interface AdjustedRow {
  readonly adjusted?: boolean;
  readonly mask?: number | undefined;
}

interface TileGroups {
  readonly adjust: GPUBindGroup;
  readonly mask: GPUBindGroup;
}

/**
 * Penalties, masks and biases on the logits of a tile, before it is sampled, and the counting of what slots with penalties
 * drew before; see shaders/adjust-logits.wgsl and mask-logits.wgsl. A tile without such rows costs nothing.
 */
export class AdjustLogits {
  readonly #kernels: Readonly<Record<keyof TileGroups, Kernel>>;
  readonly #tiles: readonly TileGroups[];
  readonly #maskWords: number;

  private constructor(
    kernels: Readonly<Record<keyof TileGroups, Kernel>>,
    tiles: readonly TileGroups[],
    maskWords: number,
  ) {
    this.#kernels = kernels;
    this.#tiles = tiles;
    this.#maskWords = maskWords;
  }

  /** Compiles what is asked for of this vocabulary, so that it needn't wait for its buffers. */
  static async compile(gpu: Gpu, vocabulary: number): Promise<void> {
    await compileKernels(gpu, vocabulary);
  }

  static async create(gpu: Gpu, shape: AdjustShape, buffers: AdjustBuffers): Promise<AdjustLogits> {
    const { vocabulary, tileRows, maxCounted, maxBiases } = shape;
    const { step, logits, lastIds, slots, counted, biases, stops, masks } = buffers;
    const words = Math.ceil(vocabulary / 32);
    const [adjust, mask] = await compileKernels(gpu, vocabulary);
    const firstRows = Array.from({ length: Math.ceil(shape.maxLogitsRows / tileRows) }, (_, tile) => tile * tileRows);
    const tiles = await Promise.all(
      firstRows.map(async (first): Promise<TileGroups> => {
        const [adjustGroup, maskGroup] = await Promise.all([
          adjust.bind(
            [vocabulary, first, maxCounted, maxBiases, words],
            [step, slots, counted, biases, stops, logits, lastIds],
          ),
          mask.bind([vocabulary, first, words, tileRows], [step, masks, logits]),
        ]);
        return { adjust: adjustGroup, mask: maskGroup };
      }),
    );
    return new AdjustLogits({ adjust, mask }, tiles, words);
  }

  /** Before the tile is sampled. `tile`: which of the header's tiles the scratch holds now; `rows`: its rows, in order. */
  encode(pass: GPUComputePassEncoder, tile: number, rows: readonly AdjustedRow[]): void {
    const { adjust, mask } = this.#tiles[tile]!;
    if (rows.some(({ adjusted }) => adjusted)) this.#kernels.adjust.dispatch(pass, adjust, rows.length);
    if (rows.some((row) => row.mask !== undefined)) {
      this.#kernels.mask.dispatchThreads(pass, mask, rows.length * this.#maskWords);
    }
  }
}

function compileKernels(gpu: Gpu, vocabulary: number): Promise<[Kernel, Kernel]> {
  const constants = { THREADS: rowThreads(gpu) };
  return Promise.all([
    Kernel.compile(gpu, {
      name: 'adjust-logits',
      code: [stepCode, keyCode, maskedCode, adjustCode],
      bindings: ['uniform', 'read', 'write', 'write', 'read', 'read', 'write', 'read'],
      constants,
    }),
    Kernel.compile(gpu, {
      name: 'mask-logits',
      // Four logits at a time where rows begin at a multiple of four.
      code: [stepCode, keyCode, maskedCode, vocabulary % 4 === 0 ? maskWordsCode : maskAnyWordsCode, maskCode],
      bindings: ['uniform', 'read', 'read', 'write'],
    }),
  ]);
}
