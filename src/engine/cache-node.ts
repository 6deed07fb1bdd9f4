/**
 * One block of cached KV: the tokens it holds, below the blocks before them. A node with fewer than BLOCK_TOKENS
 * tokens has no children.
 */
export interface CacheNode {
  readonly parent: CacheNode | undefined;
  readonly tokens: readonly number[];
  /** What news call it: of the numbers that no other node has, one of the smallest; −1 at a root. */
  readonly id: number;
  /** News tell of it. */
  readonly told: boolean;
  /** Its block of each KV group. A windowed one may be NO_BLOCK; where all are, others below it have some. */
  readonly blocks: number[];
  readonly children: CacheNode[];
  /** Sequences that run on it: while there are any, it stays, and so do its blocks of groups without a window. */
  locks: number;
  /** Of each windowed group: sequences that see its block; while there are any, that stays. */
  readonly seen: number[];
  /** Order of use: a larger number is later. */
  usedAt: number;
}

/** What the cache holds of a prompt. */
export interface CacheMatch {
  /** Whole blocks, from the root on: all windowed groups have those that the position behind them sees. */
  readonly path: readonly CacheNode[];
  /** A block whose first `tail.tokens` tokens match too; it has to be copied, since others go on differently. */
  readonly tail: { readonly node: CacheNode; readonly tokens: number } | undefined;
  /** Tokens that match in all. */
  readonly tokens: number;
}
