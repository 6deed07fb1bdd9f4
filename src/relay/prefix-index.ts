import { NodePrefixes } from './node-prefixes.ts';

/** Blocks that are remembered over all nodes: some 300 bytes each. */
export const MAX_BLOCKS = 262_144;

/** Of one of them: more take too long to drop. */
export const MAX_NODE_BLOCKS = 65_536;

/** One KV block of a node, as it told it. */
export interface CachedBlock {
  /** Of its tokens and all before them. */
  readonly hash: number;
  /** Of the block above it; NO_BLOCK where it begins a prompt. */
  readonly above: number;
  readonly ids: readonly number[];
}

/** Who wants to know which prefixes the fleet holds. */
export interface PrefixListener {
  /** A node has these from now on: a chain, from above to below. Others may have had them before. */
  onStored(rank: number, blocks: readonly CachedBlock[]): void;
  /** No node has these any more. */
  onRemoved(rank: number, hashes: readonly number[]): void;
  /** No node has anything any more. */
  onCleared(): void;
}

/**
 * Which prefixes each node caches: the relay's radix tree, as sets of block hashes, each of which stands for all tokens
 * up to its block. Nodes are strangers: what they tell is bounded, and decides nothing but where a prompt goes. Where
 * all nodes together tell too much, the one with most is forgotten as a whole.
 */
export class PrefixIndex {
  readonly listeners = new Set<PrefixListener>();
  private readonly nodes = new Set<NodePrefixes>();
  /** How many nodes hold a hash. */
  private readonly holders = new Map<number, number>();
  private readonly maxBlocks: number;
  private total = 0;

  constructor(maxBlocks = MAX_BLOCKS) {
    this.maxBlocks = maxBlocks;
  }

  /** Blocks remembered. */
  get blocks(): number {
    return this.total;
  }

  /** By rank, as they came. */
  get all(): readonly NodePrefixes[] {
    return [...this.nodes].sort((a, b) => a.rank - b.rank);
  }

  /** What a node of a new session caches: nothing that the relay knows of. */
  open(rank: number, poolTokens: number, vocabSize: number): NodePrefixes {
    const node = new NodePrefixes(this, rank, poolTokens, vocabSize);
    this.nodes.add(node);
    return node;
  }

  close(node: NodePrefixes): void {
    node.clear();
    this.nodes.delete(node);
  }

  /** What is cached is of no use any more: all nodes are gone, and those that come hold nothing. */
  clear(): void {
    for (const node of this.all) this.close(node);
    for (const listener of this.listeners) listener.onCleared();
  }

  /** For a node's own use. */
  added(node: NodePrefixes, blocks: readonly CachedBlock[]): void {
    this.total += blocks.length;
    for (const { hash } of blocks) this.holders.set(hash, (this.holders.get(hash) ?? 0) + 1);
    for (const listener of this.listeners) listener.onStored(node.rank, blocks);
    if (node.blocks > MAX_NODE_BLOCKS) node.forget();
    while (this.total > this.maxBlocks) {
      const largest = [...this.nodes].reduce((most, one) => (one.blocks > most.blocks ? one : most));
      largest.forget();
    }
  }

  /** For a node's own use. */
  removed(node: NodePrefixes, blocks: readonly CachedBlock[]): void {
    this.total -= blocks.length;
    const gone: number[] = [];
    for (const { hash } of blocks) {
      const left = (this.holders.get(hash) ?? 0) - 1;
      if (left > 0) this.holders.set(hash, left);
      else {
        this.holders.delete(hash);
        gone.push(hash);
      }
    }
    if (gone.length === 0) return;
    for (const listener of this.listeners) listener.onRemoved(node.rank, gone);
  }
}
