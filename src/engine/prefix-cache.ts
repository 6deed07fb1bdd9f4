import { firstVisibleBlock } from '../gpu/visible-blocks.ts';
import { BLOCK_TOKENS, type KvGroupLimits, NO_BLOCK } from '../model/runner.ts';
import { bestChild, commonTokens } from './best-child.ts';
import { CacheLog } from './cache-log.ts';
import type { CacheMatch, CacheNode } from './cache-node.ts';
import { isAdapted } from './kv-root.ts';
import { insertByUse, leastUsedLast } from './leaves-by-use.ts';

/**
 * The KV blocks of past and running sequences, found by their token ids: a radix tree with one block an edge, one root
 * for each (weights version, adapter). Runs that a sequence uses are locked; the others go when blocks are needed,
 * leaves first, the least recently used first (as in SGLang's RadixAttention, https://arxiv.org/abs/2312.07104). A
 * windowed group's block goes alone, wherever it is in the tree, once no sequence sees it.
 */
export class PrefixCache {
  readonly #log: CacheLog;
  readonly #release: (group: number, block: number) => void;
  readonly #groups: readonly KvGroupLimits[];
  readonly #roots = new Map<string, CacheNode>();
  /** Of each group: blocks held. */
  readonly #blocks: number[];
  /** Of each windowed group: nodes with a block that nobody sees, the least recently seen first. */
  readonly #unseen: readonly Set<CacheNode>[];
  readonly #freeIds: number[] = [];
  readonly #toldIds: number;
  #clock = 0;
  #nodes = 0;
  #lockedNodes = 0;

  /** `release` takes a block of a group back that the cache no longer holds; `told`: news tell of nodes with ids below it. */
  constructor(groups: readonly KvGroupLimits[], release: (group: number, block: number) => void, told: number) {
    this.#groups = groups;
    this.#release = release;
    this.#toldIds = told;
    this.#blocks = groups.map(() => 0);
    this.#unseen = groups.map(() => new Set());
    this.#log = new CacheLog();
  }

  /** Nodes in all. */
  get size(): number {
    return this.#nodes;
  }

  /** Blocks of a group that it holds. */
  blocks(group: number): number {
    return this.#blocks[group]!;
  }

  /** Blocks that `evict` can give. */
  evictable(group: number): number {
    return this.#isWindowed(group) ? this.#unseen[group]!.size : this.#nodes - this.#lockedNodes;
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
    // Of each group: from which block on there is no gap.
    const unbroken = this.#groups.map(() => 0);
    let usable = 0;
    let tail: CacheMatch['tail'];
    for (let node = this.#roots.get(root); node; node = path.at(-1)) {
      const found = bestChild(node, ids, path.length * BLOCK_TOKENS, Math.min(limit, ids.length));
      if (!found) break;
      if (found.tokens < BLOCK_TOKENS) {
        tail = found;
        break;
      }
      path.push(found.node);
      for (let g = 0; g < unbroken.length; g++) if (found.node.blocks[g] === NO_BLOCK) unbroken[g] = path.length;
      if (this.#seesAll(unbroken, path.length * BLOCK_TOKENS)) usable = path.length;
    }
    // The whole blocks have to do by themselves: a copy may come to nothing.
    if (usable < path.length) tail = undefined;
    path.length = usable;
    return { path, tail, tokens: usable * BLOCK_TOKENS + (tail?.tokens ?? 0) };
  }

  lock(node: CacheNode): void {
    if (node.locks++ === 0) this.#lockedNodes++;
  }

  unlock(node: CacheNode): void {
    if (node.locks === 0) throw new Error(`cached block ${node.id} is unlocked but not locked`);
    node.usedAt = ++this.#clock;
    if (--node.locks > 0) return;
    this.#lockedNodes--;
    this.#prune(node);
  }

  /** A sequence that locks `node` sees its block of a windowed group. */
  see(group: number, node: CacheNode): void {
    if (node.seen[group]!++ === 0) this.#unseen[group]!.delete(node);
  }

  unsee(group: number, node: CacheNode): void {
    if (node.seen[group] === 0) throw new Error(`cached block ${node.id} is out of sight but was not seen`);
    if (--node.seen[group]! === 0) this.#unseen[group]!.add(node);
  }

  /** Whether a sequence has to have the block of `node`: it can't be given to another. */
  isLocked(group: number, node: CacheNode): boolean {
    return (this.#isWindowed(group) ? node.seen[group]! : node.locks) > 0;
  }

  /**
   * Takes in `blocks`, one of each group (windowed ones may be NO_BLOCK), which hold `tokens` (1 … BLOCK_TOKENS), below
   * `parent` (a whole block, or undefined: `root`). Where the same tokens are there already blocks are given back that
   * it has; the node there is returned. A node that holds a beginning of the tokens makes way. Undefined: a longer
   * node covers the tokens, and a part of a block is never handed out for writing.
   */
  insert(
    root: string,
    parent: CacheNode | undefined,
    tokens: readonly number[],
    blocks: readonly number[],
  ): CacheNode | undefined {
    const above = parent ?? this.#root(root);
    for (const child of [...above.children]) {
      const common = commonTokens(child.tokens, tokens, 0, tokens.length);
      if (common === tokens.length) {
        child.usedAt = ++this.#clock;
        const same = child.tokens.length === tokens.length;
        for (let g = 0; g < blocks.length; g++) {
          if (same && child.blocks[g] === NO_BLOCK) this.#hold(g, child, blocks[g]!);
          else if (blocks[g] !== NO_BLOCK) this.#release(g, blocks[g]!);
        }
        return same ? child : undefined;
      }
      if (common === child.tokens.length && child.locks === 0) this.#remove(child);
    }
    const id = this.#freeIds.pop() ?? this.#nodes;
    const node: CacheNode = {
      parent: above,
      tokens: [...tokens],
      id,
      // Who hears of more blocks than the pool has takes it for a lie.
      told: above.told && id < this.#toldIds,
      blocks: blocks.map(() => NO_BLOCK),
      children: [],
      locks: 0,
      seen: blocks.map(() => 0),
      usedAt: ++this.#clock,
    };
    for (let g = 0; g < blocks.length; g++) this.#hold(g, node, blocks[g]!);
    above.children.push(node);
    this.#nodes++;
    this.#log.stored(node);
    return node;
  }

  /** Gives back at least `count` blocks of a group, fewer where all others are locked. Returns how many. */
  evict(group: number, count: number): number {
    const before = this.#blocks[group]!;
    if (this.#isWindowed(group)) this.#evictUnseen(group, count);
    else this.#evictLeaves(count);
    return before - this.#blocks[group]!;
  }

  /** Gives back every block that isn't locked. Returns how many of the first group. */
  flush(): number {
    const before = this.#blocks[0]!;
    if (this.#groups.some(({ window }) => window === undefined)) this.#evictLeaves(this.#nodes);
    for (let g = 0; g < this.#groups.length; g++) {
      if (this.#isWindowed(g)) this.#evictUnseen(g, this.#unseen[g]!.size);
    }
    return before - this.#blocks[0]!;
  }

  /** Gives back what is under `root` and isn't locked: nobody will ask for it again. */
  forget(root: string): void {
    const top = this.#roots.get(root);
    if (top === undefined) return;
    // Children before their parents. A long context is a chain of thousands: too deep to follow by calls.
    for (const node of [...nodesBelow([top])].reverse()) {
      if (node.children.length === 0 && node.locks === 0) this.#remove(node);
    }
    if (top.children.length === 0) this.#roots.delete(root);
  }

  /** Every node: parents before children. */
  nodes(): Generator<CacheNode> {
    return nodesBelow(this.#roots.values());
  }

  #isWindowed(group: number): boolean {
    return this.#groups[group]!.window !== undefined;
  }

  /** Whether every group has all that `position` sees, where it has what is not before `unbroken`. */
  #seesAll(unbroken: readonly number[], position: number): boolean {
    return this.#groups.every(({ window }, g) => unbroken[g]! <= firstVisibleBlock(window, position));
  }

  #root(name: string): CacheNode {
    let root = this.#roots.get(name);
    if (!root) {
      const nothing = { tokens: [], blocks: [], children: [], seen: [] };
      root = { ...nothing, parent: undefined, id: -1, told: !isAdapted(name), locks: 0, usedAt: 0 };
      this.#roots.set(name, root);
    }
    return root;
  }

  #hold(group: number, node: CacheNode, block: number): void {
    if (block === NO_BLOCK) return;
    node.blocks[group] = block;
    this.#blocks[group]!++;
    if (this.#isWindowed(group)) this.#unseen[group]!.add(node);
  }

  #drop(group: number, node: CacheNode): void {
    const block = node.blocks[group]!;
    if (block === NO_BLOCK) return;
    node.blocks[group] = NO_BLOCK;
    this.#blocks[group]!--;
    this.#unseen[group]!.delete(node);
    this.#release(group, block);
  }

  #remove(node: CacheNode): void {
    const siblings = node.parent!.children;
    siblings.splice(siblings.indexOf(node), 1);
    for (let g = 0; g < this.#groups.length; g++) this.#drop(g, node);
    this.#nodes--;
    this.#freeIds.push(node.id);
    this.#log.removed(node);
  }

  /** Removes a leaf that nobody runs on and that is of no use: it has no block, or only some where none can go on. */
  #prune(leaf: CacheNode): void {
    for (let node = leaf; node.parent && node.locks === 0 && node.children.length === 0; node = node.parent) {
      const whole = node.tokens.length === BLOCK_TOKENS;
      const useless = whole ? node.blocks.every((block) => block === NO_BLOCK) : node.blocks.includes(NO_BLOCK);
      if (!useless) return;
      this.#remove(node);
    }
  }

  #evictUnseen(group: number, count: number): void {
    const target = this.#blocks[group]! - count;
    for (const node of this.#unseen[group]!) {
      if (this.#blocks[group]! <= target) return;
      this.#drop(group, node);
      this.#prune(node);
    }
  }

  #evictLeaves(count: number): void {
    const leaves = leastUsedLast(this.nodes());
    for (let evicted = 0; evicted < count; evicted++) {
      const oldest = leaves.pop();
      if (!oldest) return;
      const { parent } = oldest;
      this.#remove(oldest);
      if (parent && parent.id >= 0 && parent.children.length === 0 && parent.locks === 0) insertByUse(leaves, parent);
    }
  }
}

/** Parents before children. */
function* nodesBelow(roots: Iterable<CacheNode>): Generator<CacheNode> {
  const open = [...roots].flatMap(({ children }) => children);
  for (let node = open.pop(); node; node = open.pop()) {
    yield node;
    open.push(...node.children);
  }
}
