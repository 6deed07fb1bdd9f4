import { BLOCK_TOKENS, type BlockCopy } from '../model/runner.ts';
import { BlockPool } from './block-pool.ts';
import { type CacheMatch, type CacheNode, PrefixCache } from './prefix-cache.ts';

/** The KV blocks of one sequence, in order of position: first those it shares, then its own. */
export class SequenceKv {
  /** Its block table. */
  readonly table: number[] = [];
  /** The shared blocks' nodes; locked. */
  readonly shared: CacheNode[] = [];
}

/** Who may share blocks with whom, and which of a sequence's tokens may be shared at all. */
export interface KvKey {
  /** Weights version and adapter; of a private one its request too. */
  readonly root: string;
  /** Its input isn't all token ids: it shares with others of its root alone, and nothing stays when these have ended. */
  readonly private: boolean;
}

/** A part of a block that a running sequence has computed, to be copied. */
export interface BorrowedTail {
  readonly from: SequenceKv;
  /** Tokens that match in all, its whole blocks included. */
  readonly tokens: number;
}

interface PendingCopy extends BlockCopy {
  /** The running sequence whose block is copied; undefined: a cached one. */
  readonly source: SequenceKv | undefined;
  /** The source's block is gone before the copy was made: the target has its whole blocks only. */
  readonly onCancel: () => void;
}

/** Blocks for all sequences: free ones, shared ones behind the prefix cache, and each sequence's own. */
export class KvCache {
  readonly #pool: BlockPool;
  readonly #prefixes: PrefixCache;
  /** What is private: no news of it leaves the engine. */
  readonly #private: PrefixCache;
  readonly #enabled: boolean;
  /** Sources of copies that the step being planned will make. */
  #copied: { readonly in: PrefixCache; readonly node: CacheNode }[] = [];
  #copies: PendingCopy[] = [];

  constructor(blocks: number, options: { readonly prefixCache: boolean }) {
    this.#pool = new BlockPool(blocks);
    this.#prefixes = new PrefixCache((released) => this.#pool.release(released));
    this.#private = new PrefixCache((released) => this.#pool.release(released));
    this.#enabled = options.prefixCache;
  }

  get blocks(): number {
    return this.#pool.size;
  }

  /** Blocks that can be had: free, or cached and not in use. */
  get available(): number {
    return this.#pool.free + this.#evictable;
  }

  get cachedBlocks(): number {
    return this.#prefixes.blocks + this.#private.blocks;
  }

  /** Blocks that hold nothing. */
  get free(): number {
    return this.#pool.free;
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
    cache.lock(match.path);
    kv.shared.push(...match.path);
    kv.table.push(...match.path.map((node) => node.block));
    const whole = match.path.length * BLOCK_TOKENS;
    const borrows = borrowed !== undefined && borrowed.tokens > match.tokens;
    if (!borrows && !match.tail) return whole;
    if (!borrows) {
      // Locked until the step is planned: its block must not be handed out as another copy's target.
      cache.lock([match.tail!.node]);
      this.#copied.push({ in: cache, node: match.tail!.node });
    }
    const own = this.#allocate(1);
    if (!own) return whole;
    const lent = borrows ? borrowed.from.table[match.path.length]! : match.tail!.node.block;
    // What is borrowed may itself be still to be copied: then it is copied from where that comes.
    const { from, source } = this.#copies.find(({ to }) => to === lent) ?? {
      from: lent,
      source: borrows ? borrowed.from : undefined,
    };
    this.#copies.push({ from, to: own[0]!, source, onCancel: () => onCancel(whole) });
    kv.table.push(own[0]!);
    return borrows ? borrowed.tokens : match.tokens;
  }

  /** The copies of the step that was planned. */
  takeCopies(): readonly BlockCopy[] {
    const copies = this.#copies.map(({ from, to }) => ({ from, to }));
    for (const { in: cache, node } of this.#copied) cache.unlock([node]);
    this.#copies = [];
    this.#copied = [];
    return copies;
  }

  /** Positions that `extend` could make the table cover. */
  roomIn(kv: SequenceKv): number {
    return (kv.table.length + this.available) * BLOCK_TOKENS;
  }

  /** Makes the table cover `positions`. False, and nothing taken: there are not enough blocks. */
  extend(kv: SequenceKv, positions: number): boolean {
    const missing = Math.ceil(positions / BLOCK_TOKENS) - kv.table.length;
    if (missing <= 0) return true;
    const blocks = this.#allocate(missing);
    if (!blocks) return false;
    kv.table.push(...blocks);
    return true;
  }

  /** Shares the whole blocks of the first `valid` tokens of a sequence that goes on. */
  share(key: KvKey, kv: SequenceKv, ids: readonly number[], valid: number): void {
    if (!this.#enabled) return;
    const cache = this.#of(key);
    while ((kv.shared.length + 1) * BLOCK_TOKENS <= valid) {
      const index = kv.shared.length;
      const tokens = ids.slice(index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS);
      const node = cache.insert(key.root, kv.shared.at(-1), tokens, kv.table[index]!)!;
      // Another sequence's block may have been there already: the same values, by the law of rows.
      kv.table[index] = node.block;
      cache.lock([node]);
      kv.shared.push(node);
    }
  }

  /** Ends a sequence's hold. Its first `valid` tokens stay cached until their blocks are needed. */
  end(key: KvKey, kv: SequenceKv, ids: readonly number[], valid: number): void {
    this.share(key, kv, ids, valid);
    const own = kv.table.slice(kv.shared.length);
    this.#forgetCopies(kv, own);
    const partial = valid - kv.shared.length * BLOCK_TOKENS;
    if (this.#enabled && partial > 0 && own.length > 0) {
      const from = kv.shared.length * BLOCK_TOKENS;
      this.#of(key).insert(key.root, kv.shared.at(-1), ids.slice(from, from + partial), own.shift()!);
    }
    this.#pool.release(own);
    this.#of(key).unlock(kv.shared);
    kv.table.length = 0;
    kv.shared.length = 0;
  }

  /** Forgets every prefix that no sequence runs on. Returns the blocks given back. */
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

  get #evictable(): number {
    return this.#prefixes.evictableBlocks + this.#private.evictableBlocks;
  }

  /** Copies to a sequence that ends are of no use, copies from it can't be made any more. */
  #forgetCopies(kv: SequenceKv, own: readonly number[]): void {
    const gone = (copy: PendingCopy) => copy.source === kv;
    for (const copy of this.#copies) if (gone(copy)) copy.onCancel();
    this.#copies = this.#copies.filter((copy) => !gone(copy) && !own.includes(copy.to));
  }

  #allocate(count: number): number[] | undefined {
    const short = count - this.#pool.free;
    if (short > this.#evictable) return undefined;
    // What is private is wanted soon, or gone.
    if (short > 0) this.#private.evict(short - this.#prefixes.evict(short));
    return this.#pool.allocate(count);
  }
}
