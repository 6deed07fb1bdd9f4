import type { Gpu } from './gpu.ts';
import { type BucketKernels, compileSampler, type SamplerKernels } from './sampler-kernels.ts';
import {
  BUCKETS,
  CHUNK_STATE,
  DIGITS_STATE,
  JOB_STATE,
  LIST,
  LISTS,
  PICK_STATE,
  REGION_IDS,
  ROUNDS,
  ROW_STATE,
  SMALL_VOCABULARY,
  STRANDS,
} from './sampler-layout.ts';

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
  /** Largest vocabulary that is searched as a whole; for tests. */
  readonly smallVocabulary?: number;
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
  readonly top: number;
}

interface BucketGroups {
  readonly masses: GPUBindGroup;
  readonly scan: GPUBindGroup;
  /** One a round. */
  readonly collect: readonly [GPUBindGroup, GPUBindGroup];
  readonly select: readonly [GPUBindGroup, GPUBindGroup];
}

/** Of some regions: the weight before a row's draws, and what follows from it. */
interface StayGroups {
  readonly regions: number;
  readonly above: GPUBindGroup;
  readonly accept: GPUBindGroup;
}

interface TileGroups {
  readonly chunks: GPUBindGroup;
  readonly rows: GPUBindGroup;
  /** Some regions, then the others where there are more. */
  readonly stays: readonly StayGroups[];
  readonly search: { readonly buckets: BucketGroups } | { readonly whole: GPUBindGroup };
  readonly top: GPUBindGroup;
  readonly tell: GPUBindGroup;
}

/** What the kernels keep, beside what the sampler tells. */
interface Scratch {
  readonly chunks: GPUBuffer;
  readonly rows: GPUBuffer;
  readonly above: GPUBuffer;
  readonly digits: GPUBuffer;
  readonly lists: GPUBuffer;
  readonly partials: GPUBuffer;
}

interface SamplerState {
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
  readonly #kernels: SamplerKernels;
  readonly #tiles: readonly TileGroups[];
  readonly #shape: SamplerShape;

  private constructor(state: SamplerState, kernels: SamplerKernels, tiles: readonly TileGroups[], shape: SamplerShape) {
    this.results = state.results;
    this.top = state.top;
    this.idLogprobs = state.idLogprobs;
    this.jobs = state.jobs;
    this.picks = state.picks;
    this.#kernels = kernels;
    this.#tiles = tiles;
    this.#shape = shape;
  }

  /** Compiles what a sampler of this vocabulary asks for, so that it needn't wait for its buffers. */
  static async compile(gpu: Gpu, vocabulary: number): Promise<void> {
    await compileSampler(gpu, vocabulary, vocabulary <= SMALL_VOCABULARY);
  }

  static async create(gpu: Gpu, shape: SamplerShape, buffers: SamplerBuffers): Promise<Sampler> {
    const { vocabulary, tileRows } = shape;
    const jobCount = 2 * tileRows;
    const partials = isSmall(shape) ? 1 : jobCount * spansOf(shape) * 2 * BUCKETS;
    const allocate = (label: string, words: number) => gpu.storage(label, words * 4);
    const [results, top, idLogprobs, jobs, picks] = await Promise.all([
      allocate('results', shape.maxLogitsRows * RESULT_WORDS),
      allocate('top logprobs', shape.maxTop * 2),
      allocate('id logprobs', shape.maxIds),
      allocate('sampler jobs', jobCount * JOB_STATE),
      allocate('sampler picks', jobCount * PICK_STATE),
    ]);
    const [chunkStats, rowStats, above, digits, lists, masses] = await Promise.all([
      allocate('chunk stats', tileRows * chunksOf(shape) * CHUNK_STATE),
      allocate('row stats', tileRows * ROW_STATE),
      allocate('weights above', tileRows * chunksOf(shape) * ROUNDS),
      allocate('sampler digits', jobCount * DIGITS_STATE),
      allocate('candidates', jobCount * LISTS * (1 + LIST)),
      allocate('bucket masses', partials),
    ]);
    const state = { results, top, idLogprobs, jobs, picks };
    const scratch = { chunks: chunkStats, rows: rowStats, above, digits, lists, partials: masses };
    const kernels = await compileSampler(gpu, vocabulary, isSmall(shape));
    const tileCount = Math.ceil(shape.maxLogitsRows / tileRows);
    const tiles = await Promise.all(
      Array.from({ length: tileCount }, (_, tile) =>
        bindTile(kernels, shape, buffers, state, scratch, tile * tileRows),
      ),
    );
    return new Sampler(state, kernels, tiles, shape);
  }

  /** `tile`: which of the header's tiles of logits rows the scratch holds now; `rows`: its rows, in order. */
  encode(pass: GPUComputePassEncoder, tile: number, rows: readonly TileRow[]): void {
    const groups = this.#tiles[tile]!;
    const { chunks, rows: rowStats, above, accept, search, top, tell } = this.#kernels;
    const regions = chunksOf(this.#shape) / STRANDS;
    chunks.dispatch(pass, groups.chunks, rows.length * regions);
    rowStats.dispatch(pass, groups.rows, rows.length);
    if (rows.some((row) => row.sampled && row.topP < 1)) {
      for (const stay of groups.stays) {
        above.dispatch(pass, stay.above, rows.length * stay.regions);
        accept.dispatch(pass, stay.accept, rows.length);
      }
    }
    const ranked = rows.some((row) => row.top > 0);
    if (ranked || rows.some(isFiltered)) {
      // Jobs of top logprobs come after those of all rows of a tile.
      const jobs = ranked ? this.#shape.tileRows + rows.length : rows.length;
      if ('whole' in search && 'whole' in groups.search) search.whole.dispatch(pass, groups.search.whole, jobs);
      if ('buckets' in search && 'buckets' in groups.search) {
        this.#searchBuckets(pass, search.buckets, groups.search.buckets, jobs, rows);
      }
    }
    if (ranked) top.dispatch(pass, groups.top, rows.length);
    tell.dispatch(pass, groups.tell, rows.length);
  }

  #searchBuckets(
    pass: GPUComputePassEncoder,
    { masses, scan, collect, select }: BucketKernels,
    groups: BucketGroups,
    jobs: number,
    rows: readonly TileRow[],
  ): void {
    const spans = spansOf(this.#shape);
    masses.dispatch(pass, groups.masses, jobs * spans);
    scan.dispatch(pass, groups.scan, jobs);
    collect.dispatch(pass, groups.collect[0], jobs * spans);
    select.dispatch(pass, groups.select[0], jobs);
    // What stays weighs as much as the cut says: only then is it known in which bucket the draw is.
    if (rows.some(isFiltered)) {
      collect.dispatch(pass, groups.collect[1], rows.length * spans);
      select.dispatch(pass, groups.select[1], rows.length);
    }
  }
}

async function bindTile(
  kernels: SamplerKernels,
  shape: SamplerShape,
  { step, logits, lastIds, slotIds }: SamplerBuffers,
  { results, top, idLogprobs, jobs, picks }: SamplerState,
  scratch: Scratch,
  first: number,
): Promise<TileGroups> {
  const { vocabulary, tileRows } = shape;
  const chunks = chunksOf(shape);
  const bindSearch = async () => {
    if ('whole' in kernels.search) {
      const buffers = [step, logits, scratch.rows, jobs, scratch.lists, picks, results, scratch.digits];
      return { whole: await kernels.search.whole.bind([vocabulary, first, tileRows], buffers) };
    }
    return { buckets: await bindBuckets(kernels.search.buckets) };
  };
  const bindBuckets = async ({ masses, scan, collect, select }: BucketKernels): Promise<BucketGroups> => {
    const spans = spansOf(shape);
    const collectOf = (round: number) =>
      collect.bind(
        [vocabulary, chunks, spans, first, tileRows, round],
        [step, logits, scratch.rows, jobs, scratch.chunks, picks, scratch.lists],
      );
    const selectOf = (round: number) =>
      select.bind(
        [vocabulary, first, tileRows, round],
        [step, logits, scratch.rows, jobs, scratch.lists, picks, results, scratch.digits],
      );
    const [massesGroup, scanGroup, collect0, collect1, select0, select1] = await Promise.all([
      masses.bind(
        [vocabulary, chunks, spans, first, tileRows],
        [step, logits, scratch.rows, jobs, scratch.chunks, scratch.partials],
      ),
      scan.bind([vocabulary, spans, first, tileRows], [step, scratch.partials, jobs, picks, scratch.lists]),
      collectOf(0),
      collectOf(1),
      selectOf(0),
      selectOf(1),
    ]);
    return { masses: massesGroup, scan: scanGroup, collect: [collect0, collect1], select: [select0, select1] };
  };
  const bindStay = async ([begin, end]: readonly [number, number]): Promise<StayGroups> => {
    const [above, accept] = await Promise.all([
      kernels.above.bind(
        [vocabulary, chunks, first, tileRows, begin, end - begin],
        [step, logits, scratch.chunks, scratch.rows, scratch.above],
      ),
      kernels.accept.bind(
        [chunks, first, tileRows, end * STRANDS],
        [step, scratch.above, scratch.chunks, scratch.rows, jobs, results],
      ),
    ]);
    return { regions: end - begin, above, accept };
  };
  const [chunkGroup, rows, stays, search, topGroup, tell] = await Promise.all([
    kernels.chunks.bind([vocabulary, chunks, first, tileRows], [step, logits, scratch.chunks]),
    kernels.rows.bind(
      [vocabulary, chunks, first, tileRows],
      [step, logits, scratch.chunks, scratch.rows, jobs, picks, results],
    ),
    Promise.all(stagesOf(shape).map(bindStay)),
    bindSearch(),
    kernels.top.bind([vocabulary, chunks, first, tileRows], [step, logits, scratch.rows, picks, scratch.chunks, top]),
    kernels.tell.bind(
      [vocabulary, first, tileRows, shape.maxLogprobIds],
      [step, logits, scratch.rows, slotIds, results, lastIds, idLogprobs],
    ),
  ]);
  return { chunks: chunkGroup, rows, stays, search, top: topGroup, tell };
}

function chunksOf({ vocabulary }: SamplerShape): number {
  return Math.ceil(vocabulary / REGION_IDS) * STRANDS;
}

function isFiltered({ sampled, topK, topP, minP }: TileRow): boolean {
  return sampled && (topK > 0 || topP < 1 || minP > 0);
}

/** From which to which region draws are weighed: a third, then the rest for those of which that doesn't tell. */
function stagesOf({ vocabulary }: SamplerShape): readonly (readonly [number, number])[] {
  const regions = Math.ceil(vocabulary / REGION_IDS);
  const some = Math.floor(regions / 3);
  return some === 0
    ? [[0, regions]]
    : [
        [0, some],
        [some, regions],
      ];
}

function spansOf({ vocabulary }: SamplerShape): number {
  return Math.ceil(vocabulary / REGION_IDS);
}

function isSmall({ vocabulary, smallVocabulary }: SamplerShape): boolean {
  return vocabulary <= (smallVocabulary ?? SMALL_VOCABULARY);
}
