import type { CacheNode } from './cache-node.ts';

/** The KV blocks of one sequence, in order of position: first those it shares, then its own. */
export class SequenceKv {
  /** Its block tables, one a KV group; NO_BLOCK stands where a window has passed. Empty before it begins. */
  readonly tables: number[][] = [];
  /** Of each group: the first entry of its table that it still has; 0 without a window. */
  readonly from: number[] = [];
  /** The shared blocks' nodes; locked. Of windowed groups it sees those from `from` on that have blocks in its table. */
  readonly shared: CacheNode[] = [];

  /** Blocks of one group that it has. */
  held(group: number): number {
    return (this.tables[group]?.length ?? 0) - (this.from[group] ?? 0);
  }
}

/** A part of a block that a running sequence has computed, to be copied. */
export interface BorrowedTail {
  readonly from: SequenceKv;
  /** Tokens that match in all, its whole blocks included. */
  readonly tokens: number;
}
