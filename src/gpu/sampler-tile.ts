import { ROUNDS } from '../contract/draw-uniform.ts';
import type { SamplerBuffers, SamplerShape, SamplerState } from './sampler.ts';
import type { BestKernels, BucketKernels, DrawKernels, StayKernels } from './sampler-kernels.ts';
import { CHUNK_STATE, LAST_ROUNDS, REGION_IDS, ROW_STATE, ROW_STRANDS, STRANDS } from './sampler-layout.ts';

/** Bind groups of a tile's search by buckets. */
export interface BucketGroups {
  /** Of row-stats, where large searches go by buckets. */
  readonly rows: GPUBindGroup;
  readonly masses: GPUBindGroup;
  readonly scan: GPUBindGroup;
  /** One a round. */
  readonly collect: readonly [GPUBindGroup, GPUBindGroup];
  readonly select: readonly [GPUBindGroup, GPUBindGroup];
}

/** Of some draws and regions: the weight before them, and what follows from it. */
interface StayGroups {
  /** Workgroups of a row. */
  readonly parts: number;
  readonly above: GPUBindGroup;
  readonly accept: GPUBindGroup;
}

/** Bind groups of a tile of which only best ids are told. */
export interface BestGroups {
  readonly chunks: GPUBindGroup;
  readonly best: GPUBindGroup;
}

/** Bind groups of a tile's draws and logprobs. */
export interface DrawGroups {
  readonly rows: GPUBindGroup;
  readonly whole: GPUBindGroup;
  readonly top: GPUBindGroup;
  readonly tell: GPUBindGroup;
  /** Some regions, then the others where there are more; none where `rows` weighs draws itself. */
  readonly stays: readonly StayGroups[];
}

/** What the kernels keep, beside what the sampler tells. */
export interface Scratch {
  readonly chunks: GPUBuffer;
  readonly rows: GPUBuffer;
  readonly above: GPUBuffer;
  readonly lists: GPUBuffer;
  readonly partials: GPUBuffer;
}

/** What a tile's kernels are bound to; its first row is the step's logits row `first`. */
export interface TileBuffers {
  readonly shape: SamplerShape;
  readonly buffers: SamplerBuffers;
  readonly state: SamplerState;
  readonly scratch: Scratch;
  readonly first: number;
}

/** Kernels of one purpose, with the bind groups of each tile. */
export interface Bound<Kernels, Groups> {
  readonly kernels: Kernels;
  readonly tiles: readonly Groups[];
}

export async function bound<Kernels, Groups>(
  compiled: Promise<Kernels>,
  tiles: readonly TileBuffers[],
  bind: (kernels: Kernels, tile: TileBuffers) => Promise<Groups>,
): Promise<Bound<Kernels, Groups>> {
  const kernels = await compiled;
  return { kernels, tiles: await Promise.all(tiles.map((tile) => bind(kernels, tile))) };
}

export async function bindBuckets(
  { rows }: DrawKernels,
  { masses, scan, collect, select }: BucketKernels,
  tile: TileBuffers,
): Promise<BucketGroups> {
  const { shape, first, scratch } = tile;
  const { step, logits, lastIds } = tile.buffers;
  const { results, jobs, picks } = tile.state;
  const { vocabulary, tileRows } = shape;
  const regions = regionsOf(shape);
  const chunks = regions * STRANDS;
  const collectOf = (round: number) =>
    collect.bind(
      [vocabulary, chunks, regions, first, tileRows, round],
      [step, logits, scratch.rows, jobs, scratch.chunks, picks, scratch.lists],
    );
  const selectOf = (round: number) =>
    select.bind(
      [vocabulary, first, tileRows, round],
      [step, logits, scratch.rows, jobs, scratch.lists, picks, results, lastIds],
    );
  const [rowGroup, massesGroup, scanGroup, collect0, collect1, select0, select1] = await Promise.all([
    rows.bind([vocabulary, chunks, first, tileRows, 1], rowBuffers(tile, true)),
    masses.bind(
      [vocabulary, chunks, regions, first, tileRows],
      [step, logits, scratch.rows, jobs, scratch.chunks, scratch.partials],
    ),
    scan.bind([vocabulary, regions, first, tileRows], [step, scratch.partials, jobs, picks, scratch.lists]),
    collectOf(0),
    collectOf(1),
    selectOf(0),
    selectOf(1),
  ]);
  const [collectGroups, selectGroups] = [[collect0, collect1] as const, [select0, select1] as const];
  return { rows: rowGroup, masses: massesGroup, scan: scanGroup, collect: collectGroups, select: selectGroups };
}

function rowBuffers({ buffers, state, scratch }: TileBuffers, large: boolean): GPUBuffer[] {
  const { step, logits, lastIds } = buffers;
  const some = [step, logits, scratch.rows, state.jobs, state.picks, state.results, lastIds];
  return large ? [...some, scratch.chunks] : some;
}

export async function bindBest({ chunks, best }: BestKernels, tile: TileBuffers): Promise<BestGroups> {
  const { shape, first, scratch } = tile;
  const { step, logits, lastIds } = tile.buffers;
  const fields = [shape.vocabulary, regionsOf(shape) * STRANDS, first, shape.tileRows];
  const [chunkGroup, bestGroup] = await Promise.all([
    chunks.bind(fields, [step, logits, scratch.chunks]),
    best.bind(fields, [step, logits, scratch.chunks, tile.state.results, lastIds]),
  ]);
  return { chunks: chunkGroup, best: bestGroup };
}

export async function bindDraws(kernels: DrawKernels, tile: TileBuffers): Promise<DrawGroups> {
  const { shape, first, scratch } = tile;
  const { step, logits, lastIds, slotIds } = tile.buffers;
  const { results, top, idLogprobs, jobs, picks } = tile.state;
  const { vocabulary, tileRows } = shape;
  const regions = regionsOf(shape);
  const chunks = regions * STRANDS;
  const bindStay = async ({ above, accept }: StayKernels, { draw, draws, begin, end }: Stage): Promise<StayGroups> => {
    const [aboveGroup, acceptGroup] = await Promise.all([
      above.bind(
        [vocabulary, chunks, first, tileRows, begin, end - begin, draw, draws],
        [step, logits, scratch.chunks, scratch.rows, scratch.above],
      ),
      accept.bind(
        [vocabulary, chunks, first, tileRows, end * STRANDS, draw, draws],
        [step, logits, scratch.above, scratch.chunks, scratch.rows, jobs, results, lastIds],
      ),
    ]);
    return { parts: draws * (end - begin), above: aboveGroup, accept: acceptGroup };
  };
  const { stay, chunked } = kernels;
  const [rows, whole, topGroup, tell, stays] = await Promise.all([
    kernels.rows.bind([vocabulary, chunks, first, tileRows, 0], rowBuffers(tile, chunked)),
    kernels.whole.bind(
      [vocabulary, first, tileRows],
      [step, logits, scratch.rows, jobs, scratch.lists, picks, results, lastIds],
    ),
    kernels.top.bind(
      [vocabulary, chunks, first, tileRows, ...(chunked ? [0, CHUNK_STATE * chunks] : [ROW_STRANDS, ROW_STATE])],
      [step, logits, scratch.rows, picks, chunked ? scratch.chunks : scratch.rows, top],
    ),
    kernels.tell.bind(
      [vocabulary, first, tileRows, shape.maxLogprobIds],
      [step, logits, scratch.rows, slotIds, idLogprobs],
    ),
    stay ? Promise.all(stagesOf(regions).map((stage) => bindStay(stay, stage))) : [],
  ]);
  return { rows, whole, top: topGroup, tell, stays };
}

/** Which of a row's draws are weighed, from which to which region. */
interface Stage {
  readonly draw: number;
  readonly draws: number;
  readonly begin: number;
  readonly end: number;
}

/**
 * The first draw in a third of the regions, in the rest where that doesn't tell; each later one where those before it
 * don't stay, the last ones together, since few rows come to them.
 */
function stagesOf(regions: number): readonly Stage[] {
  const some = Math.floor(regions / 3);
  const rest: Stage[] = [
    { draw: 0, draws: 1, begin: some, end: regions },
    { draw: 1, draws: LAST_ROUNDS - 1, begin: 0, end: regions },
    { draw: LAST_ROUNDS, draws: ROUNDS - LAST_ROUNDS, begin: 0, end: regions },
  ];
  return some === 0 ? rest : [{ draw: 0, draws: 1, begin: 0, end: some }, ...rest];
}

export function regionsOf({ vocabulary }: SamplerShape): number {
  return Math.ceil(vocabulary / REGION_IDS);
}
