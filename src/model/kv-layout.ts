import { KV_FORMATS, type KvFormat } from '../gpu/kv-format.ts';
import type { StepCapacity } from '../gpu/pack-step.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { BLOCK_TOKENS, type KvGroupLimits, type RunnerLimits } from './runner.ts';

/** Groups at most: a sequence's entry in a step has so many words for block tables. */
export const MAX_KV_GROUPS = 3;

/** Blocks of a sequence beyond what its window and a chunk fill: the first and the last of them are held in part. */
const PARTIAL_BLOCKS = 2;

/** Layers whose KV has the same shape: they share a block table, and each has a buffer of the group's size. */
export interface KvGroup {
  readonly layers: readonly number[];
  readonly kvHeads: number;
  readonly headSize: number;
  readonly format: KvFormat;
  /** Keys a position sees, itself included; absent: all before it. */
  readonly window?: number;
}

/**
 * A decoder's KV groups, those without a window first, then the widest window first. A window that the context never
 * fills is none. Throws RangeError where the layers are of more than MAX_KV_GROUPS kinds.
 */
export function kvGroups({ layers }: Pick<DecoderConfig, 'layers'>, contextLength: number): readonly KvGroup[] {
  const groups = new Map<string, KvGroup & { readonly layers: number[] }>();
  layers.forEach(({ attention: { kvHeads, headSize, window } }, layer) => {
    const bounded = window !== undefined && window < contextLength;
    const key = [bounded ? window : 'all', kvHeads, headSize].join();
    const group = groups.get(key);
    if (group) group.layers.push(layer);
    else groups.set(key, { layers: [layer], kvHeads, headSize, format: 'f32', ...(bounded ? { window } : {}) });
  });
  const sorted = [...groups.values()].sort((a, b) => seen(b) - seen(a));
  if (sorted.length > MAX_KV_GROUPS) {
    const kinds = sorted.map(({ kvHeads, headSize, window }) => `${kvHeads} × ${headSize}, window ${window ?? 'none'}`);
    throw new RangeError(`layers have ${sorted.length} kinds of KV (${kinds.join('; ')}), at most ${MAX_KV_GROUPS}`);
  }
  return sorted;
}

/** The group of a layer. */
export function kvGroupOf(groups: readonly KvGroup[], layer: number): number {
  const group = groups.findIndex(({ layers }) => layers.includes(layer));
  if (group < 0) throw new RangeError(`layer ${layer} is in no KV group`);
  return group;
}

function seen({ window }: { readonly window?: number }): number {
  return window ?? Number.POSITIVE_INFINITY;
}

/** Bytes of one block in one layer of `group`: 16 tokens, K and V. */
export function blockBytes(group: KvGroup): number {
  return BLOCK_TOKENS * 2 * group.kvHeads * group.headSize * KV_FORMATS[group.format].bytes;
}

/** Bytes of one block in all layers of `group`. */
function groupBlockBytes(group: KvGroup): number {
  return blockBytes(group) * group.layers.length;
}

export interface KvRequest {
  /** Exactly so many blocks, of the first group. */
  readonly kvBlocks?: number;
  /** As many blocks as fit in so many bytes. */
  readonly kvBudgetBytes?: number;
  /** With a budget: no more blocks than can ever be of use. */
  readonly maxKvBlocks?: number;
}

/** What a step may have: sizes of windowed pools follow from it. */
export interface StepSizes {
  readonly maxRows: number;
  readonly maxSequences: number;
}

/**
 * Blocks of each group's pool, from one budget. The first group, which sees most, has as many blocks as fit, and the
 * others as many as it; but a windowed one no more than all sequences can hold at once, each its window, a chunk and
 * two blocks held in part. A layer's buffer is one binding, so the binding limit bounds pools too: a budget is cut to
 * it, a number of blocks over it is refused. Throws RangeError with the sizes.
 */
export function poolBlocks(
  groups: readonly KvGroup[],
  request: KvRequest & StepSizes,
  bindingLimit: number,
): readonly number[] {
  const [first, ...others] = groups;
  const fits = (group: KvGroup) => Math.floor(bindingLimit / blockBytes(group));
  const most = Math.min(fits(first!), ...others.filter(({ window }) => window === undefined).map(fits));
  const useful = others.map((group) => Math.min(fits(group), windowBlocks(group, request)));
  const blocksWith = (lead: number) => [lead, ...useful.map((blocks) => Math.min(lead, blocks))];
  if (request.kvBlocks !== undefined) {
    if (!Number.isSafeInteger(request.kvBlocks) || request.kvBlocks < 1) {
      throw new RangeError(`kvBlocks must be a positive integer, got ${request.kvBlocks}`);
    }
    if (request.kvBlocks > most) {
      const bytes = Math.max(...groups.map(blockBytes));
      throw new RangeError(
        `${request.kvBlocks} KV blocks of ${bytes} bytes a layer are over the binding limit of ${bindingLimit} bytes`,
      );
    }
    return blocksWith(request.kvBlocks);
  }
  if (request.kvBudgetBytes === undefined) throw new RangeError('neither kvBlocks nor kvBudgetBytes is given');
  const lead = Math.min(most, request.maxKvBlocks ?? most, leadBlocks(groups, useful, request.kvBudgetBytes));
  if (!(lead >= 1)) {
    const everyLayer = groups.reduce((sum, group) => sum + groupBlockBytes(group), 0);
    throw new RangeError(`a KV block takes ${everyLayer} bytes, over the budget of ${request.kvBudgetBytes}`);
  }
  return blocksWith(lead);
}

/** Blocks of a group that all sequences can hold at once. */
function windowBlocks({ window }: KvGroup, { maxRows, maxSequences }: StepSizes): number {
  if (window === undefined) return Number.POSITIVE_INFINITY;
  return maxSequences * (Math.ceil((window + maxRows) / BLOCK_TOKENS) + PARTIAL_BLOCKS);
}

/** The most blocks of the first group that fit, with those of the others, which have `useful` ones at most. */
function leadBlocks(groups: readonly KvGroup[], useful: readonly number[], budget: number): number {
  const [first, ...others] = groups;
  const growing = new Set(others.map((_, i) => i));
  let fixed = 0;
  for (;;) {
    const each = [...growing].reduce((sum, i) => sum + groupBlockBytes(others[i]!), groupBlockBytes(first!));
    const lead = Math.floor((budget - fixed) / each);
    const full = [...growing].filter((i) => useful[i]! <= lead);
    if (full.length === 0) return lead;
    // The smallest first: what it leaves makes others grow.
    const smallest = full.reduce((least, i) => (useful[i]! < useful[least]! ? i : least));
    growing.delete(smallest);
    fixed += useful[smallest]! * groupBlockBytes(others[smallest]!);
  }
}

/** Positions of the longest sequence that the pools can hold. A window slides once its pool has room for it and a block. */
export function servedPositions(groups: readonly KvGroupLimits[], contextLength: number): number {
  return Math.min(
    contextLength,
    ...groups.map((group) => (slides(group) ? contextLength : group.blocks * BLOCK_TOKENS)),
  );
}

/** Tokens that the pools hold, as one number: of the first group's blocks, or of one sequence where its window slides past these. */
export function poolTokens(groups: readonly KvGroupLimits[], contextLength: number): number {
  return Math.max(groups[0]!.blocks * BLOCK_TOKENS, servedPositions(groups, contextLength));
}

/** Rows of one sequence that a step may have, so that its windows and they fit the pools. */
export function mostChunkRows(groups: readonly KvGroupLimits[]): number {
  return Math.min(...groups.map((group) => (slides(group) ? slidingRows(group) : Number.POSITIVE_INFINITY)));
}

function slides(group: KvGroupLimits): boolean {
  return group.window !== undefined && slidingRows(group) >= BLOCK_TOKENS;
}

/** Rows behind a full window, wherever in a block it begins. */
function slidingRows({ blocks, window = 0 }: KvGroupLimits): number {
  return (blocks - 1) * BLOCK_TOKENS - window + 1;
}

/** Entries of a sequence's block table that a step's rows read or write, at most. */
export function tableBlocks({ window }: KvGroupLimits, maxRows: number, positions: number): number {
  const all = Math.ceil(positions / BLOCK_TOKENS);
  return window === undefined ? all : Math.min(all, Math.ceil((window + maxRows) / BLOCK_TOKENS) + PARTIAL_BLOCKS);
}

/** Pools of so many blocks, as limits tell them. */
export function kvGroupLimits(groups: readonly KvGroup[], blocks: readonly number[]): readonly KvGroupLimits[] {
  return groups.map(({ window }, g) => ({ blocks: blocks[g]!, ...(window === undefined ? {} : { window }) }));
}

/** What a step's metadata holds at most, attention's split items aside. */
export function stepCapacity(limits: RunnerLimits): Omit<StepCapacity, 'splitItems'> {
  const { kvGroups: groups, maxRows, maxSequences, contextLength } = limits;
  const positions = servedPositions(groups, contextLength);
  return {
    ...limits,
    maxCopies: maxSequences,
    kvGroups: groups.length,
    maxTableBlocks: groups.reduce((sum, group) => sum + tableBlocks(group, maxRows, positions), 0),
  };
}
