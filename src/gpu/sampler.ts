import type { Gpu } from './gpu.ts';
import { compileSampler, type SamplerKernels } from './sampler-kernels.ts';
import {
  BUCKETS,
  CHUNK_IDS,
  CHUNK_STATE,
  DIGITS_STATE,
  JOB_STATE,
  LIST,
  LISTS,
  PICK_STATE,
  ROW_STATE,
  SMALL_VOCABULARY,
  SPAN_IDS,
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

interface TileGroups {
  readonly chunks: GPUBindGroup;
  readonly rows: GPUBindGroup;
  readonly masses: GPUBindGroup;
  readonly scan: GPUBindGroup;
  /** One a round. */
  readonly collect: readonly [GPUBindGroup, GPUBindGroup];
  readonly select: readonly [GPUBindGroup, GPUBindGroup];
  readonly top: GPUBindGroup;
  readonly tell: GPUBindGroup;
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

  static async create(gpu: Gpu, shape: SamplerShape, buffers: SamplerBuffers): Promise<Sampler> {
    const { vocabulary, tileRows } = shape;
    const { step, logits, lastIds, slotIds } = buffers;
    const chunks = Math.ceil(vocabulary / CHUNK_IDS);
    const spans = Math.ceil(vocabulary / SPAN_IDS);
    const jobCount = 2 * tileRows;
    const [chunkStats, rowStats, jobs, picks, digits, lists, partials, results, top, idLogprobs] = await Promise.all([
      gpu.storage('chunk stats', tileRows * chunks * CHUNK_STATE * 4),
      gpu.storage('row stats', tileRows * ROW_STATE * 4),
      gpu.storage('sampler jobs', jobCount * JOB_STATE * 4),
      gpu.storage('sampler picks', jobCount * PICK_STATE * 4),
      gpu.storage('sampler digits', jobCount * DIGITS_STATE * 4),
      gpu.storage('candidates', jobCount * LISTS * (1 + LIST) * 4),
      gpu.storage('bucket masses', jobCount * spans * 2 * BUCKETS * 4),
      gpu.storage('results', shape.maxLogitsRows * RESULT_WORDS * 4),
      gpu.storage('top logprobs', shape.maxTop * 2 * 4),
      gpu.storage('id logprobs', shape.maxIds * 4),
    ]);
    const kernels = await compileSampler(gpu, vocabulary);
    const small = smallVocabulary(shape);
    const firstRows = Array.from({ length: Math.ceil(shape.maxLogitsRows / tileRows) }, (_, tile) => tile * tileRows);
    const tiles = await Promise.all(
      firstRows.map(async (first): Promise<TileGroups> => {
        const collectOf = (round: number) =>
          kernels.collect.bind(
            [vocabulary, chunks, spans, first, tileRows, round],
            [step, logits, rowStats, jobs, chunkStats, picks, lists],
          );
        const selectOf = (round: number) =>
          kernels.select.bind(
            [vocabulary, first, tileRows, round],
            [step, logits, rowStats, jobs, lists, picks, results, digits],
          );
        const [chunkGroup, rows, masses, scan, collect0, collect1, select0, select1, topGroup, tell] =
          await Promise.all([
            kernels.chunks.bind([vocabulary, chunks, first, tileRows], [step, logits, chunkStats]),
            kernels.rows.bind(
              [vocabulary, chunks, first, tileRows, small],
              [step, logits, chunkStats, rowStats, jobs, picks, results],
            ),
            kernels.masses.bind(
              [vocabulary, chunks, spans, first, tileRows],
              [step, logits, rowStats, jobs, chunkStats, partials],
            ),
            kernels.scan.bind([vocabulary, spans, first, tileRows], [step, partials, jobs, picks, lists]),
            collectOf(0),
            collectOf(1),
            selectOf(0),
            selectOf(1),
            kernels.top.bind([vocabulary, chunks, first, tileRows], [step, logits, rowStats, picks, chunkStats, top]),
            kernels.tell.bind(
              [vocabulary, first, tileRows, shape.maxLogprobIds],
              [step, logits, rowStats, slotIds, results, lastIds, idLogprobs],
            ),
          ]);
        return {
          chunks: chunkGroup,
          rows,
          masses,
          scan,
          collect: [collect0, collect1],
          select: [select0, select1],
          top: topGroup,
          tell,
        };
      }),
    );
    return new Sampler({ results, top, idLogprobs, jobs, picks }, kernels, tiles, shape);
  }

  /** `tile`: which of the header's tiles of logits rows the scratch holds now; `rows`: its rows, in order. */
  encode(pass: GPUComputePassEncoder, tile: number, rows: readonly TileRow[]): void {
    const groups = this.#tiles[tile]!;
    const kernels = this.#kernels;
    const { vocabulary, tileRows } = this.#shape;
    kernels.chunks.dispatchThreads(pass, groups.chunks, rows.length * Math.ceil(vocabulary / CHUNK_IDS));
    kernels.rows.dispatch(pass, groups.rows, rows.length);
    const top = rows.some((row) => row.top > 0);
    const sampled = rows.some((row) => row.sampled);
    if (top || sampled) {
      // Jobs of top logprobs come after those of all rows of a tile.
      const jobs = top ? tileRows + rows.length : rows.length;
      const spans = jobs * Math.ceil(vocabulary / SPAN_IDS);
      const buckets = vocabulary > smallVocabulary(this.#shape);
      if (buckets) {
        kernels.masses.dispatch(pass, groups.masses, spans);
        kernels.scan.dispatch(pass, groups.scan, jobs);
        kernels.collect.dispatch(pass, groups.collect[0], spans);
      }
      kernels.select.dispatch(pass, groups.select[0], jobs);
      const filtered = rows.some((row) => row.sampled && (row.topK > 0 || row.topP < 1 || row.minP > 0));
      if (buckets && filtered) {
        kernels.collect.dispatch(pass, groups.collect[1], rows.length * Math.ceil(vocabulary / SPAN_IDS));
        kernels.select.dispatch(pass, groups.select[1], rows.length);
      }
    }
    if (top) kernels.top.dispatch(pass, groups.top, rows.length);
    kernels.tell.dispatch(pass, groups.tell, rows.length);
  }
}

function smallVocabulary(shape: SamplerShape): number {
  return shape.smallVocabulary ?? SMALL_VOCABULARY;
}
