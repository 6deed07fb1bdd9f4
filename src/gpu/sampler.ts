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
  /** Logprobs of slots' ids of one step, all rows together. */
  readonly maxIds: number;
  /** Ids of one slot. */
  readonly maxLogprobIds: number;
}

export interface SamplerBuffers {
  readonly step: GPUBuffer;
  /** [tileRows, vocabulary] f32. */
  readonly logits: GPUBuffer;
  /** [maxSequences] u32. */
  readonly lastIds: GPUBuffer;
  /** [maxSequences, 1 + maxLogprobIds] u32: how many ids, then the ids whose logprobs a slot tells. */
  readonly slotIds: GPUBuffer;
}

/** What a row of a tile asks for beside its best id; decides which kernels run. */
export interface TileRow {
  readonly sampled: boolean;
  readonly logprob: boolean;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly top: number;
  readonly idLogprobs?: boolean;
  readonly scored?: number | undefined;
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
 * scratch for all. Which rows: those that the step's header says now (its count of logits rows, and where their records
 * begin); a submit for some of a step's rows rewrites those two words, and row 0 is then the first of these. See shaders/argmax*.wgsl, sample.wgsl, top-logprobs.wgsl, rank-logprobs.wgsl.
 */
export class Sampler {
  /** [maxLogitsRows, RESULT_WORDS] u32. */
  readonly results: GPUBuffer;
  /** [maxTop, 2] u32: id, bits of the logprob; a row's begin where its logits record says. */
  readonly top: GPUBuffer;
  /** [maxIds] f32: logprobs of slots' ids; a row's begin where its logits record says. */
  readonly idLogprobs: GPUBuffer;
  readonly #kernels: Readonly<Record<keyof TileGroups, Kernel>>;
  readonly #tiles: readonly TileGroups[];
  readonly #chunks: number;

  private constructor(
    results: GPUBuffer,
    top: GPUBuffer,
    idLogprobs: GPUBuffer,
    kernels: Readonly<Record<keyof TileGroups, Kernel>>,
    tiles: readonly TileGroups[],
    chunks: number,
  ) {
    this.results = results;
    this.top = top;
    this.idLogprobs = idLogprobs;
    this.#kernels = kernels;
    this.#tiles = tiles;
    this.#chunks = chunks;
  }

  static async create(gpu: Gpu, shape: SamplerShape, buffers: SamplerBuffers): Promise<Sampler> {
    const { vocabulary, tileRows } = shape;
    const count = Math.ceil(vocabulary / ARGMAX_CHUNK);
    const [chunks, best, totals, candidates, results, top, idLogprobs] = await Promise.all([
      gpu.storage('argmax chunks', tileRows * count * 3 * 4),
      gpu.storage('best', tileRows * 4 * 4),
      gpu.storage('totals', tileRows * 4),
      gpu.storage('top candidates', shape.maxTop * 4),
      gpu.storage('results', shape.maxLogitsRows * RESULT_WORDS * 4),
      gpu.storage('top logprobs', shape.maxTop * 2 * 4),
      gpu.storage('id logprobs', shape.maxIds * 4),
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
    return new Sampler(results, top, idLogprobs, kernels, tiles, count);
  }

  /** `tile`: which of the header's tiles of logits rows the scratch holds now; `rows`: its rows, in order. */
  encode(pass: GPUComputePassEncoder, tile: number, rows: readonly TileRow[]): void {
    const groups = this.#tiles[tile]!;
    const { chunks, argmax, sample, top, rank } = this.#kernels;
    chunks.dispatchThreads(pass, groups.chunks, rows.length * this.#chunks);
    argmax.dispatchThreads(pass, groups.argmax, rows.length);
    if (rows.some((row) => row.sampled || row.logprob || row.top > 0))
      sample.dispatch(pass, groups.sample, rows.length);
    if (rows.some((row) => row.top > 0)) {
      top.dispatch(pass, groups.top, rows.length);
      rank.dispatch(pass, groups.rank, rows.length);
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
