import { BLOCK_TOKENS } from '../model/runner.ts';
import { CacheLog } from './cache-log.ts';

/**
 * One block of cached KV: the tokens it holds, below the blocks before them. A node with fewer than BLOCK_TOKENS
 * tokens has no children.
 */
export interface CacheNode {
  readonly parent: CacheNode | undefined;
  readonly tokens: readonly number[];
  /** The KV block; −1 at a root. */
  readonly block: number;
  readonly children: CacheNode[];
  /** Sequences that run on this block: while there are any, it stays. */
  locks: number;
  /** Order of use: a larger number is later. */
  usedAt: number;
}

/** What the cache holds of a prompt. */
export interface CacheMatch {
  /** Whole blocks, from the root on. */
  readonly path: readonly CacheNode[];
  /** A block whose first `tail.tokens` tokens match too; it has to be copied, since others go on differently. */
  readonly tail: { readonly node: CacheNode; readonly tokens: number } | undefined;
  /** Tokens that match in all. */
  readonly tokens: number;
}

/**
 * The KV blocks of past and running sequences, found by their token ids: a radix tree with one block an edge, one root
 * for each (weights version, adapter). Runs that a sequence uses are locked; the others go when blocks are needed,
 * leaves first, the least recently used first (as in SGLang's RadixAttention, https://arxiv.org/abs/2312.07104).
 */
export class PrefixCache {
  readonly #log = new CacheLog();
  readonly #release: (blocks: readonly number[]) => void;
  readonly #roots = new Map<string, CacheNode>();
  #clock = 0;
  #blocks = 0;
  #lockedBlocks = 0;

  /** `release` takes blocks back that the cache no longer holds. */
  constructor(release: (blocks: readonly number[]) => void) {
    this.#release = release;
  }

  /** Blocks held. */
  get blocks(): number {
    return this.#blocks;
  }

  /** Blocks that `evict` can give. */
  get evictableBlocks(): number {
    return this.#blocks - this.#lockedBlocks;
  }

  /** What changed since it was last asked; `beginLog` tells all that is there anew. */
  get log(): Pick<CacheLog, 'empty' | 'take'> {
    return this.#log;
  }

  beginLog(): void {
    this.#log.begin(this.nodes());
  }

  /** The longest run of `ids` that is cached under `root`, of at most `limit` tokens. */
  match(root: string, ids: readonly number[], limit: number): CacheMatch {
    const path: CacheNode[] = [];
    let node = this.#roots.get(root);
    let at = 0;
    while (node) {
      const found = bestChild(node, ids, at, Math.min(limit, ids.length));
      if (!found) break;
      at += found.tokens;
      if (found.tokens < BLOCK_TOKENS) return { path, tail: found, tokens: at };
      path.push(found.node);
      node = found.node;
    }
    return { path, tail: undefined, tokens: at };
  }

  lock(nodes: Iterable<CacheNode>): void {
    for (const node of nodes) {
      if (node.locks++ === 0) this.#lockedBlocks++;
    }
  }

  unlock(nodes: Iterable<CacheNode>): void {
    for (const node of nodes) {
      if (node.locks === 0) throw new Error(`KV block ${node.block} is unlocked but not locked`);
      node.usedAt = ++this.#clock;
      if (--node.locks === 0) this.#lockedBlocks--;
    }
  }

  /**
   * Takes `block`, which holds `tokens` (1 … BLOCK_TOKENS), in below `parent` (a whole block, or undefined: `root`).
   * Where the same tokens are there already the block is given back; the node there is returned. A node that holds a
   * beginning of the tokens makes way. Undefined: a longer node covers the tokens, and a part of a block is never
   * handed out for writing.
   */
  insert(root: string, parent: CacheNode | undefined, tokens: readonly number[], block: number): CacheNode | undefined {
    const above = parent ?? this.#root(root);
    for (const child of [...above.children]) {
      const common = commonLength(child.tokens, tokens, 0, tokens.length);
      if (common === tokens.length) {
        child.usedAt = ++this.#clock;
        this.#release([block]);
        return child.tokens.length === tokens.length ? child : undefined;
      }
      if (common === child.tokens.length && child.locks === 0) this.#remove(child);
    }
    const usedAt = ++this.#clock;
    const node: CacheNode = { parent: above, tokens: [...tokens], block, children: [], locks: 0, usedAt };
    above.children.push(node);
    this.#blocks++;
    this.#log.stored(node);
    return node;
  }

  /** Gives back at least `count` blocks, fewer where all others are locked. Returns how many. */
  evict(count: number): number {
    const leaves = this.#evictableLeaves();
    let evicted = 0;
    while (evicted < count) {
      const oldest = leaves.pop();
      if (!oldest) break;
      const { parent } = oldest;
      this.#remove(oldest);
      evicted++;
      if (parent && parent.block >= 0 && parent.children.length === 0 && parent.locks === 0)
        insertByUse(leaves, parent);
    }
    return evicted;
  }

  /** Gives back every block that isn't locked. Returns how many. */
  flush(): number {
    return this.evict(this.#blocks);
  }

  /** Gives back what is under `root` and isn't locked: nobody will ask for it again. */
  forget(root: string): void {
    const top = this.#roots.get(root);
    if (top === undefined) return;
    this.#forgetBelow(top);
    if (top.children.length === 0) this.#roots.delete(root);
  }

  /** Every node, for checks: parents before children. */
  *nodes(): Generator<CacheNode> {
    const open = [...this.#roots.values()].flatMap((root) => root.children);
    for (let node = open.pop(); node; node = open.pop()) {
      yield node;
      open.push(...node.children);
    }
  }

  #root(name: string): CacheNode {
    let root = this.#roots.get(name);
    if (!root) {
      root = { parent: undefined, tokens: [], block: -1, children: [], locks: 0, usedAt: 0 };
      this.#roots.set(name, root);
    }
    return root;
  }

  #forgetBelow(node: CacheNode): void {
    for (const child of [...node.children]) {
      this.#forgetBelow(child);
      if (child.children.length === 0 && child.locks === 0) this.#remove(child);
    }
  }

  #remove(node: CacheNode): void {
    const siblings = node.parent!.children;
    siblings.splice(siblings.indexOf(node), 1);
    this.#blocks--;
    this.#log.removed(node);
    this.#release([node.block]);
  }

  /** Unlocked leaves, the least recently used last. */
  #evictableLeaves(): CacheNode[] {
    const leaves: CacheNode[] = [];
    for (const node of this.nodes()) {
      if (node.locks === 0 && node.children.length === 0) leaves.push(node);
    }
    return leaves.sort((a, b) => b.usedAt - a.usedAt);
  }
}

/** The child that shares most tokens with `ids` from `at` on, below `limit`. */
function bestChild(node: CacheNode, ids: readonly number[], at: number, limit: number) {
  let best: { node: CacheNode; tokens: number } | undefined;
  for (const child of node.children) {
    const tokens = commonLength(child.tokens, ids, at, limit);
    if (tokens > (best?.tokens ?? 0)) best = { node: child, tokens };
  }
  return best;
}

/** How many of `tokens` stand in `ids` from `at` on, none at `limit` or behind. */
function commonLength(tokens: readonly number[], ids: readonly number[], at: number, limit: number): number {
  const most = Math.min(tokens.length, limit - at);
  let common = 0;
  while (common < most && tokens[common] === ids[at + common]) common++;
  return common;
}

/** Keeps `leaves` sorted, the least recently used last. */
function insertByUse(leaves: CacheNode[], node: CacheNode): void {
  let low = 0;
  let high = leaves.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (leaves[middle]!.usedAt > node.usedAt) low = middle + 1;
    else high = middle;
  }
  leaves.splice(low, 0, node);
}
