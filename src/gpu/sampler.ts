import { ROUNDS } from '../contract/draw-uniform.ts';
import { deferred } from './deferred.ts';
import type { Gpu } from './gpu.ts';
import { rowThreads } from './row-threads.ts';
import {
  type BestKernels,
  type BucketKernels,
  compileBest,
  compileBuckets,
  compileDraws,
  type DrawKernels,
  type StayKernels,
} from './sampler-kernels.ts';
import {
  BUCKETS,
  CHUNK_STATE,
  JOB_STATE,
  PICK_STATE,
  ROW_STATE,
  SEARCH_STATE,
  SMALL_VOCABULARY,
  STRANDS,
} from './sampler-layout.ts';
import {
  type BestGroups,
  type Bound,
  type BucketGroups,
  bindBest,
  bindBuckets,
  bindDraws,
  bound,
  type DrawGroups,
  regionsOf,
} from './sampler-tile.ts';
import { isManyDrawn, isManyRanked, mayWait } from './searched-row.ts';

/** Workgroups that go through a tile's rows where few, if any, have to be searched for. */
const RARE_GROUPS = 2;

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
  /** Largest vocabulary that one workgroup goes through; for tests. */
  readonly smallVocabulary?: number;
  /** Threads of a workgroup that has a row to itself; for tests. */
  readonly threads?: number;
}

export interface SamplerBuffers {
  readonly step: GPUBuffer;
  /** [tileRows, vocabulary] f32. Exactly -FLOAT_MAX: the id can't be drawn. */
  readonly logits: GPUBuffer;
  /** [maxSequences] u32. */
  readonly lastIds: GPUBuffer;
  /** [maxSequences, 1 + maxLogprobIds] u32: how many ids, then the ids whose logprobs a slot tells. */
  readonly slotIds: GPUBuffer;
}

/** What a row of a tile asks for beside its best id; decides which kernels run. */
export interface TileRow {
  readonly sampled: boolean;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly logprob: boolean;
  readonly top: number;
  readonly idLogprobs?: boolean | undefined;
}

/** What decides which kernels a row takes, and how its tokens are searched for. */
export type SearchedRow = Pick<TileRow, 'sampled' | 'topK' | 'logprob' | 'top' | 'idLogprobs'>;

export interface SamplerState {
  /** [maxLogitsRows, RESULT_WORDS] u32. */
  readonly results: GPUBuffer;
  /** [maxTop, 2] u32: id, bits of the logprob; a row's begin where its logits record says, in no order: see readTop. */
  readonly top: GPUBuffer;
  /** [maxIds] f32: logprobs of slots' ids; a row's begin where its logits record says. */
  readonly idLogprobs: GPUBuffer;
  /** [2 × tileRows, JOB_STATE] u32: what each row of the tile sampled last kept, for tests; see sampler-layout.ts. */
  readonly jobs: GPUBuffer;
  /** [2 × tileRows, PICK_STATE] u32; likewise. */
  readonly picks: GPUBuffer;
}

/**
 * From logits to ids: best id, or a draw, with logprobs where asked. Logits come in tiles of `tileRows` rows, one
 * scratch for all. Which rows: those that the step's header says now (its count of logits rows, and where their records
 * begin); a submit for some of a step's rows rewrites those two words, and row 0 is then the first of these.
 * Which kernels there are, what they cost and why: docs/kernels.md, "Sampling".
 */
export class Sampler {
  readonly results: GPUBuffer;
  readonly top: GPUBuffer;
  readonly idLogprobs: GPUBuffer;
  readonly jobs: GPUBuffer;
  readonly picks: GPUBuffer;
  readonly #shape: SamplerShape;
  /** Of a large vocabulary: enough for rows of which only the best id is told. */
  #best: Bound<BestKernels, BestGroups> | undefined;
  /** Draws and logprobs; of a large vocabulary they may come late. */
  #draws: Bound<DrawKernels, DrawGroups> | undefined;
  #drawsDue: Promise<void> | undefined;
  /** The search of many tokens of a large vocabulary; it may come late. */
  #buckets: Bound<BucketKernels, BucketGroups> | undefined;
  /** Settles once that search is there, or was refused; undefined then, and where there is none. */
  #bucketsDue: Promise<void> | undefined;

  private constructor(state: SamplerState, shape: SamplerShape) {
    this.results = state.results;
    this.top = state.top;
    this.idLogprobs = state.idLogprobs;
    this.jobs = state.jobs;
    this.picks = state.picks;
    this.#shape = shape;
  }

  /** Compiles what a sampler of this vocabulary asks for at once, so that it needn't wait for its buffers. */
  static async compile(gpu: Gpu, vocabulary: number): Promise<void> {
    const small = vocabulary <= SMALL_VOCABULARY;
    const variant = { vocabulary, small, threads: rowThreads(gpu) };
    await (small ? compileDraws(gpu, variant) : compileBest(gpu, variant));
  }

  static async create(gpu: Gpu, shape: SamplerShape, buffers: SamplerBuffers): Promise<Sampler> {
    const { vocabulary, tileRows } = shape;
    const small = vocabulary <= (shape.smallVocabulary ?? SMALL_VOCABULARY);
    const jobCount = 2 * tileRows;
    const chunks = regionsOf(shape) * STRANDS;
    const allocate = (label: string, words: number) => gpu.storage(label, words * 4);
    const [results, top, idLogprobs, jobs, picks] = await Promise.all([
      allocate('results', shape.maxLogitsRows * RESULT_WORDS),
      allocate('top logprobs', shape.maxTop * 2),
      allocate('id logprobs', shape.maxIds),
      allocate('sampler jobs', jobCount * JOB_STATE),
      allocate('sampler picks', jobCount * PICK_STATE),
    ]);
    const [chunkStats, rowStats, above, lists, partials] = await Promise.all([
      allocate('chunk stats', tileRows * chunks * CHUNK_STATE),
      allocate('row stats', tileRows * ROW_STATE),
      allocate('weights above', tileRows * chunks * ROUNDS),
      allocate('candidates', jobCount * SEARCH_STATE),
      allocate('bucket masses', small ? 1 : jobCount * regionsOf(shape) * 2 * BUCKETS),
    ]);
    const state = { results, top, idLogprobs, jobs, picks };
    const scratch = { chunks: chunkStats, rows: rowStats, above, lists, partials };
    const variant = { vocabulary, small, threads: shape.threads ?? rowThreads(gpu) };
    const tiles = Array.from({ length: Math.ceil(shape.maxLogitsRows / tileRows) }, (_, tile) => ({
      ...{ shape, buffers, state, scratch },
      first: tile * tileRows,
    }));
    const sampler = new Sampler(state, shape);
    const takeDraws = async () => {
      sampler.#draws = await bound(compileDraws(gpu, variant), tiles, bindDraws);
    };
    if (small) {
      await takeDraws();
      return sampler;
    }
    sampler.#best = await bound(compileBest(gpu, variant), tiles, bindBest);
    const draws = deferred();
    sampler.#drawsDue = draws.promise;
    await gpu.awaited(async () => {
      // Where the device refuses them the node ends: no row is let in that nothing draws.
      await takeDraws();
      sampler.#drawsDue = undefined;
      draws.resolve();
    });
    const buckets = deferred();
    sampler.#bucketsDue = buckets.promise;
    await gpu.late(async () => {
      try {
        const { kernels } = sampler.#draws!;
        sampler.#buckets = await bound(compileBuckets(gpu, variant), tiles, (some, tile) =>
          bindBuckets(kernels, some, tile),
        );
      } finally {
        sampler.#bucketsDue = undefined;
        buckets.resolve();
      }
      // Requests wait for it, as for no other of what is late.
    }, 'soon');
    return sampler;
  }

  /**
   * Settles once all is there that draws such a row, or its buckets were refused for good; undefined: it is. Before its draws are there a
   * large vocabulary gives best ids only. Without its buckets a search is right, but adds in another order: no row may go
   * from the one to the other.
   */
  awaits(row: SearchedRow): Promise<void> | undefined {
    const draws = this.#isBest(row) ? undefined : this.#drawsDue;
    const buckets =
      isManyDrawn(row, this.#shape.vocabulary) || isManyRanked(row, this.#shape.vocabulary)
        ? this.#bucketsDue
        : undefined;
    return draws && buckets ? draws.then(() => buckets) : (draws ?? buckets);
  }

  /** `tile`: which of the header's tiles of logits rows the scratch holds now; `rows`: its rows, in order. */
  encode(pass: GPUComputePassEncoder, tile: number, rows: readonly TileRow[]): void {
    const count = rows.length;
    const best = this.#best;
    best?.kernels.chunks.dispatch(pass, best.tiles[tile]!.chunks, count * regionsOf(this.#shape));
    if (best && rows.every((row) => this.#isBest(row))) {
      best.kernels.best.dispatch(pass, best.tiles[tile]!.best, count);
      return;
    }
    if (!this.#draws) throw new Error('rows are drawn before the kernels for it are there');
    const { rows: rowStats, whole, top, tell, stay } = this.#draws.kernels;
    const groups = this.#draws.tiles[tile]!;
    const buckets = this.#buckets && { ...this.#buckets, groups: this.#buckets.tiles[tile]! };
    rowStats.dispatch(pass, buckets?.groups.rows ?? groups.rows, count);
    const ranked = rows.some((row) => row.top > 0);
    // Jobs of top logprobs come after those of all rows of a tile.
    const jobs = ranked ? this.#shape.tileRows + count : count;
    if (stay) this.#weigh(pass, stay, groups, rows);
    if (buckets) this.#searchBuckets(pass, buckets.kernels, buckets.groups, rows, jobs);
    const often = rows.some((row) => this.#oftenNeedsWhole(row));
    if (often) whole.dispatch(pass, groups.whole, jobs);
    else if (rows.some((row) => this.#mayNeedWhole(row)))
      whole.dispatch(pass, groups.whole, Math.min(jobs, RARE_GROUPS));
    if (ranked) top.dispatch(pass, groups.top, count);
    if (rows.some(({ idLogprobs }) => idLogprobs)) tell.dispatch(pass, groups.tell, count);
  }

  #weigh(
    pass: GPUComputePassEncoder,
    { above, accept }: StayKernels,
    { stays }: DrawGroups,
    rows: readonly TileRow[],
  ): void {
    if (!rows.some((row) => mayWait(row, this.#shape.vocabulary))) return;
    for (const stay of stays) {
      above.dispatch(pass, stay.above, rows.length * stay.parts);
      accept.dispatch(pass, stay.accept, rows.length);
    }
  }

  #searchBuckets(
    pass: GPUComputePassEncoder,
    { masses, scan, collect, select }: BucketKernels,
    some: BucketGroups,
    rows: readonly TileRow[],
    jobs: number,
  ): void {
    const drawn = rows.some((row) => this.#isBucketed(row));
    if (!drawn && !rows.some((row) => this.#isRankedByBuckets(row))) return;
    const regions = regionsOf(this.#shape);
    masses.dispatch(pass, some.masses, jobs * regions);
    scan.dispatch(pass, some.scan, jobs);
    collect.dispatch(pass, some.collect[0], jobs * regions);
    select.dispatch(pass, some.select[0], jobs);
    // What stays weighs as much as the cut says: only then is it known in which bucket the draw is.
    if (drawn) {
      collect.dispatch(pass, some.collect[1], rows.length * regions);
      select.dispatch(pass, some.select[1], rows.length);
    }
  }

  /** Nothing but its best id is told, and its vocabulary has kernels for that. */
  #isBest({ sampled, logprob, top, idLogprobs }: SearchedRow): boolean {
    return this.#best !== undefined && !sampled && !logprob && top === 0 && !idLogprobs;
  }

  #isBucketed(row: TileRow): boolean {
    return this.#buckets !== undefined && isManyDrawn(row, this.#shape.vocabulary);
  }

  #isRankedByBuckets(row: TileRow): boolean {
    return this.#buckets !== undefined && isManyRanked(row, this.#shape.vocabulary);
  }

  /** Its draw or its top logprobs are to be searched for by one workgroup. */
  #oftenNeedsWhole(row: TileRow): boolean {
    if (row.top > 0 && !this.#isRankedByBuckets(row)) return true;
    return isManyDrawn(row, this.#shape.vocabulary) && !this.#isBucketed(row);
  }

  /** Its draw may have to be searched for by one workgroup, though that is rare. */
  #mayNeedWhole(row: TileRow): boolean {
    const { sampled, topK, topP, minP } = row;
    return sampled && (topK > 0 || topP < 1 || minP > 0) && !this.#isBucketed(row);
  }
}
