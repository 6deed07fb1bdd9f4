import argmaxCode from '../../shaders/argmax.wgsl?raw';
import chunksCode from '../../shaders/argmax-chunks.wgsl?raw';
import keyCode from '../../shaders/logit-key.wgsl?raw';
import rankCode from '../../shaders/rank-logprobs.wgsl?raw';
import sampleCode from '../../shaders/sample.wgsl?raw';
import selectCode from '../../shaders/select-kept.wgsl?raw';
import stepCode from '../../shaders/step.wgsl?raw';
import threefryCode from '../../shaders/threefry.wgsl?raw';
import topCode from '../../shaders/top-logprobs.wgsl?raw';
import type { Gpu } from './gpu.ts';
import { Kernel } from './kernel.ts';

/** Logits that one thread of argmax looks at first. */
const ARGMAX_CHUNK = 512;

/** u32 words of a row's result: id, non-finite, bits of the logprob, 0. */
export const RESULT_WORDS = 4;

export interface SamplerShape {
  readonly vocabulary: number;
  /** Logits rows of one tile. */
  readonly tileRows: number;
  /** Logits rows of one step. */
  readonly maxLogitsRows: number;
  /** Top logprobs of one step, all rows together. */
  readonly maxTop: number;
}

export interface SamplerBuffers {
  readonly step: GPUBuffer;
  /** [tileRows, vocabulary] f32. */
  readonly logits: GPUBuffer;
  /** [maxSequences] u32. */
  readonly lastIds: GPUBuffer;
}

/** What the rows of a tile ask for beside the best id. */
export interface TileWork {
  readonly rows: number;
  /** A row is sampled, or wants a logprob or top logprobs. */
  readonly sample: boolean;
  readonly top: boolean;
}

interface TileGroups {
  readonly chunks: GPUBindGroup;
  readonly argmax: GPUBindGroup;
  readonly sample: GPUBindGroup;
  readonly top: GPUBindGroup;
  readonly rank: GPUBindGroup;
}

/**
 * From logits to ids: best id, or a draw, with logprobs where asked. Logits come in tiles of `tileRows` rows, one
 * scratch for all; see shaders/argmax*.wgsl, sample.wgsl, top-logprobs.wgsl, rank-logprobs.wgsl.
 */
export class Sampler {
  /** [maxLogitsRows, RESULT_WORDS] u32. */
  readonly results: GPUBuffer;
  /** [maxTop, 2] u32: id, bits of the logprob; a row's begin where its logits record says. */
  readonly top: GPUBuffer;
  readonly #kernels: Readonly<Record<keyof TileGroups, Kernel>>;
  readonly #tiles: readonly TileGroups[];
  readonly #chunks: number;

  private constructor(
    results: GPUBuffer,
    top: GPUBuffer,
    kernels: Readonly<Record<keyof TileGroups, Kernel>>,
    tiles: readonly TileGroups[],
    chunks: number,
  ) {
    this.results = results;
    this.top = top;
    this.#kernels = kernels;
    this.#tiles = tiles;
    this.#chunks = chunks;
  }

  static async create(gpu: Gpu, shape: SamplerShape, buffers: SamplerBuffers): Promise<Sampler> {
    const { vocabulary, tileRows } = shape;
    const count = Math.ceil(vocabulary / ARGMAX_CHUNK);
    const [chunks, best, totals, candidates, results, top] = await Promise.all([
      gpu.storage('argmax chunks', tileRows * count * 3 * 4),
      gpu.storage('best', tileRows * 4 * 4),
      gpu.storage('totals', tileRows * 4),
      gpu.storage('top candidates', shape.maxTop * 4),
      gpu.storage('results', shape.maxLogitsRows * RESULT_WORDS * 4),
      gpu.storage('top logprobs', shape.maxTop * 2 * 4),
    ]);
    const kernels = await compileKernels(gpu);
    const { step, logits, lastIds } = buffers;
    const firstRows = Array.from({ length: Math.ceil(shape.maxLogitsRows / tileRows) }, (_, tile) => tile * tileRows);
    const tiles = await Promise.all(
      firstRows.map(async (first): Promise<TileGroups> => {
        const sampleFields = [vocabulary, vocabulary, first];
        const [chunkGroup, argmax, sample, topGroup, rank] = await Promise.all([
          kernels.chunks.bind([vocabulary, vocabulary, count, first], [step, logits, chunks]),
          kernels.argmax.bind([count, first, tileRows], [step, chunks, best, results, lastIds]),
          kernels.sample.bind(sampleFields, [step, logits, best, results, lastIds, totals]),
          kernels.top.bind(sampleFields, [step, logits, best, candidates]),
          kernels.rank.bind([vocabulary, first], [step, logits, best, totals, candidates, top]),
        ]);
        return { chunks: chunkGroup, argmax, sample, top: topGroup, rank };
      }),
    );
    return new Sampler(results, top, kernels, tiles, count);
  }

  /** `tile`: which of the step's tiles of logits rows the scratch holds now. */
  encode(pass: GPUComputePassEncoder, tile: number, work: TileWork): void {
    const groups = this.#tiles[tile]!;
    const { chunks, argmax, sample, top, rank } = this.#kernels;
    chunks.dispatchThreads(pass, groups.chunks, work.rows * this.#chunks);
    argmax.dispatchThreads(pass, groups.argmax, work.rows);
    if (work.sample || work.top) sample.dispatch(pass, groups.sample, work.rows);
    if (work.top) {
      top.dispatch(pass, groups.top, work.rows);
      rank.dispatch(pass, groups.rank, work.rows);
    }
  }
}

async function compileKernels(gpu: Gpu): Promise<Readonly<Record<keyof TileGroups, Kernel>>> {
  const [chunks, argmax, sample, top, rank] = await Promise.all([
    Kernel.compile(gpu, {
      name: 'argmax-chunks',
      code: [stepCode, keyCode, chunksCode],
      bindings: ['uniform', 'read', 'read', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'argmax',
      code: [stepCode, keyCode, argmaxCode],
      bindings: ['uniform', 'read', 'read', 'write', 'write', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'sample',
      code: [stepCode, keyCode, selectCode, threefryCode, sampleCode],
      bindings: ['uniform', 'read', 'read', 'read', 'write', 'write', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'top-logprobs',
      code: [stepCode, keyCode, selectCode, topCode],
      bindings: ['uniform', 'read', 'read', 'read', 'write'],
    }),
    Kernel.compile(gpu, {
      name: 'rank-logprobs',
      code: [stepCode, keyCode, selectCode, rankCode],
      bindings: ['uniform', 'read', 'read', 'read', 'read', 'read', 'write'],
    }),
  ]);
  return { chunks, argmax, sample, top, rank };
}
