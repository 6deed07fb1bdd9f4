import { firstVisibleBlock } from '../gpu/visible-blocks.ts';
import { BLOCK_TOKENS, type BlockCopy, type KvGroupLimits, NO_BLOCK } from '../model/runner.ts';
import { BlockPool } from './block-pool.ts';
import type { CacheMatch, CacheNode } from './cache-node.ts';
import type { KvKey } from './kv-key.ts';
import { PendingCopies } from './pending-copies.ts';
import { PrefixCache } from './prefix-cache.ts';
import type { BorrowedTail, SequenceKv } from './sequence-kv.ts';

/**
 * Blocks for all sequences, of each KV group: free ones, shared ones behind the prefix cache, and each sequence's own.
 * Of a windowed group a sequence has those that its next row sees, and those after them.
 */
export class KvCache {
  readonly #groups: readonly KvGroupLimits[];
  readonly #windowed: readonly number[];
  readonly #pools: readonly BlockPool[];
  readonly #prefixes: PrefixCache;
  /** What is private: no news of it leaves the engine. */
  readonly #private: PrefixCache;
  readonly #enabled: boolean;
  readonly #copies = new PendingCopies();
  /** Cached sources of the copies. */
  #copied: { readonly in: PrefixCache; readonly node: CacheNode }[] = [];
  /** Own blocks that windows have passed, but copies read. */
  #passed: { readonly group: number; readonly block: number }[] = [];

  /** `toldBlocks`: news tell of cached blocks of tokens with numbers below it; default: the blocks of the first group. */
  constructor(
    groups: readonly KvGroupLimits[],
    options: { readonly prefixCache: boolean; readonly toldBlocks?: number },
  ) {
    this.#groups = groups;
    this.#windowed = groups.flatMap(({ window }, g) => (window === undefined ? [] : [g]));
    this.#pools = groups.map(({ blocks }) => new BlockPool(blocks));
    const release = (group: number, block: number) => this.#pools[group]!.release([block]);
    const told = options.toldBlocks ?? groups[0]!.blocks;
    this.#prefixes = new PrefixCache(groups, release, told);
    this.#private = new PrefixCache(groups, release, told);
    this.#enabled = options.prefixCache;
  }

  get groups(): readonly KvGroupLimits[] {
    return this.#groups;
  }

  /** Blocks of a group that can be had: free, or cached and not in use. */
  available(group = 0): number {
    return this.#pools[group]!.free + this.#evictable(group);
  }

  /** Blocks that can't be had, of the fullest pool; in blocks of the first. */
  get usedBlocks(): number {
    const first = this.#groups[0]!.blocks;
    const used = ({ blocks }: KvGroupLimits, g: number) => ((blocks - this.available(g)) * first) / blocks;
    return Math.max(...this.#groups.map((group, g) => Math.ceil(used(group, g))));
  }

  /** Of the first group. */
  get cachedBlocks(): number {
    return this.#prefixes.blocks(0) + this.#private.blocks(0);
  }

  /** Blocks of a group that hold nothing. */
  free(group = 0): number {
    return this.#pools[group]!.free;
  }

  /** Which those are, for checks. */
  freeBlocks(group: number): readonly number[] {
    return this.#pools[group]!.freeBlocks;
  }

  get prefixes(): PrefixCache {
    return this.#prefixes;
  }

  /** Every cached block, for checks. */
  *nodes(): Generator<CacheNode> {
    yield* this.#prefixes.nodes();
    yield* this.#private.nodes();
  }

  /** What is cached of `ids`; the last token is always computed, for its logits. */
  match(key: KvKey, ids: readonly number[], limit = ids.length - 1): CacheMatch {
    const most = this.#enabled ? Math.min(limit, ids.length - 1) : 0;
    return this.#of(key).match(key.root, ids, most);
  }

  /**
   * Whether a sequence that was matched finds room for so many positions, computed in chunks of `chunk` rows, with
   * `spare` blocks left in each pool.
   */
  hasRoom(key: KvKey, { path }: CacheMatch, positions: number, chunk: number, spare: number): boolean {
    const cache = this.#of(key);
    return this.#groups.every(({ window }, g) => {
      const first = firstVisibleBlock(window, path.length * BLOCK_TOKENS);
      const shared = path.slice(first);
      const all = Math.ceil(positions / BLOCK_TOKENS) - first;
      const most = window === undefined ? all : Math.min(all, Math.ceil((window + chunk) / BLOCK_TOKENS) + 1);
      const taken = shared.filter((node) => !cache.isLocked(g, node)).length;
      return Math.max(0, most - shared.length) + taken + spare <= this.available(g);
    });
  }

  /**
   * Starts a sequence's blocks with what was matched, and returns the tokens found. A block that matches in part, a
   * cached one or one that a running sequence fills (`borrowed`, where it has more), is copied at the step's start
   * (`takeCopies`); `onCancel` is called with the tokens left should that come to nothing.
   */
  begin(
    key: KvKey,
    kv: SequenceKv,
    match: CacheMatch,
    borrowed?: BorrowedTail,
    onCancel: (tokens: number) => void = () => {},
  ): number {
    const cache = this.#of(key);
    const { path } = match;
    const whole = path.length * BLOCK_TOKENS;
    this.#open(kv);
    for (const node of path) cache.lock(node);
    kv.shared.push(...path);
    for (const [g, { window }] of this.#groups.entries()) {
      const first = firstVisibleBlock(window, whole);
      kv.from[g] = first;
      for (let i = 0; i < path.length; i++) {
        kv.tables[g]!.push(i < first ? NO_BLOCK : path[i]!.blocks[g]!);
        if (window !== undefined && i >= first) cache.see(g, path[i]!);
      }
    }
    const lent = borrowed && borrowed.tokens > match.tokens ? blocksAt(borrowed.from, path.length) : undefined;
    const borrows = lent !== undefined && !lent.includes(NO_BLOCK);
    if (!borrows && !match.tail) return whole;
    // Locked until the step is planned: its blocks must not be handed out as another copy's target.
    if (!borrows) this.#lockCopied(cache, match.tail!.node);
    const own = this.#allocate(this.#groups.map(() => 1));
    if (!own) {
      if (!borrows) this.#unlockCopied(this.#copied.pop()!);
      return whole;
    }
    const to = own.map(([block]) => block!);
    const from = borrows ? lent : [...match.tail!.node.blocks];
    this.#copies.add(from, to, borrows ? borrowed!.from : undefined, () => onCancel(whole));
    for (const [g, block] of to.entries()) kv.tables[g]!.push(block);
    return borrows ? borrowed!.tokens : match.tokens;
  }

  /** The copies of the step that was planned. */
  takeCopies(): readonly BlockCopy[] {
    for (const copied of this.#copied) this.#unlockCopied(copied);
    for (const { group, block } of this.#passed) this.#pools[group]!.release([block]);
    this.#copied = [];
    this.#passed = [];
    return this.#copies.take();
  }

  /** Positions that `extend` could make the tables cover. */
  roomIn(kv: SequenceKv): number {
    return Math.min(...this.#groups.map((_, g) => (kv.tables[g]?.length ?? 0) + this.available(g))) * BLOCK_TOKENS;
  }

  /**
   * Gives back the blocks of windowed groups that `position`, which is computed next, doesn't see, nor any after it. Steps
   * that are under way read them before another's step can write them.
   */
  slide(key: KvKey, kv: SequenceKv, position: number): void {
    if (this.#windowed.length === 0 || kv.tables.length === 0) return;
    // Should its copy come to nothing, it goes on from its whole blocks.
    if (this.#copies.fills(kv.tables[0]![kv.shared.length])) return;
    for (const g of this.#windowed) {
      const table = kv.tables[g]!;
      const first = Math.min(firstVisibleBlock(this.#groups[g]!.window, position), table.length);
      for (let i = kv.from[g]!; i < first; i++) {
        const block = table[i]!;
        table[i] = NO_BLOCK;
        if (block === NO_BLOCK) continue;
        if (i < kv.shared.length) this.#of(key).unsee(g, kv.shared[i]!);
        else if (this.#copies.reads(g, block)) this.#passed.push({ group: g, block });
        else this.#pools[g]!.release([block]);
      }
      kv.from[g] = Math.max(kv.from[g]!, first);
    }
  }

  /** Makes the tables cover `positions`. False, and nothing taken: there are not enough blocks. */
  extend(kv: SequenceKv, positions: number): boolean {
    this.#open(kv);
    const blocks = Math.ceil(positions / BLOCK_TOKENS);
    if (kv.tables.every((table) => table.length >= blocks)) return true;
    const taken = this.#allocate(kv.tables.map((table) => Math.max(0, blocks - table.length)));
    if (!taken) return false;
    for (const [g, own] of taken.entries()) kv.tables[g]!.push(...own);
    return true;
  }

  /** Gives back what the tables cover beyond `positions`. */
  trim(kv: SequenceKv, positions: number): void {
    const kept = Math.max(Math.ceil(positions / BLOCK_TOKENS), kv.shared.length);
    for (const [g, table] of kv.tables.entries()) this.#pools[g]!.release(table.splice(kept));
  }

  /** Shares the whole blocks of the first `valid` tokens of a sequence that goes on. */
  share(key: KvKey, kv: SequenceKv, ids: readonly number[], valid: number): void {
    if (!this.#enabled) return;
    const cache = this.#of(key);
    while ((kv.shared.length + 1) * BLOCK_TOKENS <= valid) {
      const index = kv.shared.length;
      const tokens = ids.slice(index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS);
      const node = cache.insert(key.root, kv.shared.at(-1), tokens, blocksAt(kv, index))!;
      cache.lock(node);
      for (const [g, { window }] of this.#groups.entries()) {
        // A window has passed: the sequence doesn't see what another may have put there.
        if (kv.tables[g]![index] === NO_BLOCK) continue;
        // Another sequence's block may have been there already: the same values, by the law of rows.
        kv.tables[g]![index] = node.blocks[g]!;
        if (window !== undefined) cache.see(g, node);
      }
      kv.shared.push(node);
    }
  }

  /** Ends a sequence's hold. Its first `valid` tokens stay cached until their blocks are needed. */
  end(key: KvKey, kv: SequenceKv, ids: readonly number[], valid: number): void {
    if (kv.tables.length === 0) return;
    this.share(key, kv, ids, valid);
    const cache = this.#of(key);
    const index = kv.shared.length;
    const partial = valid - index * BLOCK_TOKENS;
    const last = blocksAt(kv, index);
    // What a copy was to fill holds nothing yet.
    const keeps = this.#enabled && partial > 0 && !last.includes(NO_BLOCK) && !this.#copies.fills(last[0]);
    this.#copies.forget(kv, kv.tables[0]!.slice(index));
    if (keeps)
      cache.insert(key.root, kv.shared.at(-1), ids.slice(index * BLOCK_TOKENS, index * BLOCK_TOKENS + partial), last);
    for (const [g, table] of kv.tables.entries()) {
      const own = table.slice(keeps ? index + 1 : index).filter((block) => block !== NO_BLOCK);
      this.#pools[g]!.release(own);
    }
    for (const g of this.#windowed) for (const node of kv.shared.slice(kv.from[g])) cache.unsee(g, node);
    for (const node of kv.shared) cache.unlock(node);
    kv.tables.length = 0;
    kv.from.length = 0;
    kv.shared.length = 0;
  }

  /** Forgets every prefix that no sequence runs on. Returns the blocks of the first group given back. */
  flush(): number {
    return this.#prefixes.flush() + this.#private.flush();
  }

  /** The last sequence of a private root has ended. */
  forget(key: KvKey): void {
    this.#of(key).forget(key.root);
  }

  #of(key: KvKey): PrefixCache {
    return key.private ? this.#private : this.#prefixes;
  }

  #open(kv: SequenceKv): void {
    for (let g = kv.tables.length; g < this.#groups.length; g++) {
      kv.tables.push([]);
      kv.from.push(0);
    }
  }

  #lockCopied(cache: PrefixCache, node: CacheNode): void {
    cache.lock(node);
    for (const g of this.#windowed) cache.see(g, node);
    this.#copied.push({ in: cache, node });
  }

  #unlockCopied({ in: cache, node }: { readonly in: PrefixCache; readonly node: CacheNode }): void {
    for (const g of this.#windowed) cache.unsee(g, node);
    cache.unlock(node);
  }

  #evictable(group: number): number {
    return this.#prefixes.evictable(group) + this.#private.evictable(group);
  }

  /** So many blocks of each group; none where one has too few. */
  #allocate(counts: readonly number[]): number[][] | undefined {
    if (counts.some((count, g) => count > this.available(g))) return undefined;
    return counts.map((count, g) => {
      const pool = this.#pools[g]!;
      const short = count - pool.free;
      // What is private is wanted soon, or gone.
      const left = short > 0 ? short - this.#prefixes.evict(g, short) : 0;
      if (left > 0) this.#private.evict(g, left);
      return pool.allocate(count)!;
    });
  }
}

/** A sequence's block of each group at an index of its tables. */
function blocksAt({ tables }: SequenceKv, index: number): number[] {
  return tables.map((table) => table[index] ?? NO_BLOCK);
}
