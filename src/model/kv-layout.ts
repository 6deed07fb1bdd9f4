import { KV_FORMATS, type KvFormat } from '../gpu/kv-format.ts';
import { BLOCK_TOKENS } from './runner.ts';

/** Layers whose KV has the same shape: they share a block table, and each has a buffer of the group's size. */
export interface KvGroup {
  readonly layers: readonly number[];
  readonly kvHeads: number;
  readonly headSize: number;
  readonly format: KvFormat;
}

/** Bytes of one block in one layer of `group`: 16 tokens, K and V. */
export function blockBytes(group: KvGroup): number {
  return BLOCK_TOKENS * 2 * group.kvHeads * group.headSize * KV_FORMATS[group.format].bytes;
}

export interface KvRequest {
  /** Exactly so many blocks. */
  readonly kvBlocks?: number;
  /** As many blocks as fit in so many bytes. */
  readonly kvBudgetBytes?: number;
  /** With a budget: no more blocks than can ever be of use. */
  readonly maxKvBlocks?: number;
}

/**
 * Blocks of the pool. A layer's buffer is one binding, so the binding limit bounds the pool too: a budget is cut to
 * it, a number of blocks over it is refused. Throws RangeError with the sizes.
 */
export function poolBlocks(groups: readonly KvGroup[], request: KvRequest, bindingLimit: number): number {
  const largest = Math.max(...groups.map(blockBytes));
  const most = Math.floor(bindingLimit / largest);
  const everyLayer = groups.reduce((sum, group) => sum + blockBytes(group) * group.layers.length, 0);
  if (request.kvBlocks !== undefined) {
    if (!Number.isSafeInteger(request.kvBlocks) || request.kvBlocks < 1) {
      throw new RangeError(`kvBlocks must be a positive integer, got ${request.kvBlocks}`);
    }
    if (request.kvBlocks > most) {
      throw new RangeError(
        `${request.kvBlocks} KV blocks of ${largest} bytes a layer are over the binding limit of ${bindingLimit} bytes`,
      );
    }
    return request.kvBlocks;
  }
  if (request.kvBudgetBytes === undefined) throw new RangeError('neither kvBlocks nor kvBudgetBytes is given');
  const blocks = Math.min(most, request.maxKvBlocks ?? most, Math.floor(request.kvBudgetBytes / everyLayer));
  if (!(blocks >= 1)) {
    throw new RangeError(`a KV block takes ${everyLayer} bytes, over the budget of ${request.kvBudgetBytes}`);
  }
  return blocks;
}
