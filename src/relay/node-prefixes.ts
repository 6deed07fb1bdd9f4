import type { CacheRemoved, CacheStored } from '../contract/gen/node_relay_pb.ts';
import { BLOCK_TOKENS, blockHash, NO_BLOCK } from './block-hashes.ts';
import { Lie } from './lie.ts';
import type { CachedBlock, PrefixIndex } from './prefix-index.ts';

/** What one session's node caches, as it told, and the prompts that it is working on. */
export class NodePrefixes {
  readonly rank: number;
  /** By the node's own numbers. */
  private readonly byNumber = new Map<number, CachedBlock>();
  /** How often a hash is cached or being computed. */
  private readonly counts = new Map<number, number>();
  private readonly index: PrefixIndex;
  private readonly numbers: number;
  private readonly vocabSize: number;
  /** Some of what it told was dropped: it may speak of blocks that aren't known here. */
  private forgetful = false;

  constructor(index: PrefixIndex, rank: number, poolTokens: number, vocabSize: number) {
    this.index = index;
    this.rank = rank;
    this.numbers = Math.ceil(poolTokens / BLOCK_TOKENS);
    this.vocabSize = vocabSize;
  }

  /** Blocks told. */
  get blocks(): number {
    return this.byNumber.size;
  }

  /** Parents before children. */
  get cached(): Iterable<CachedBlock> {
    return this.byNumber.values();
  }

  /** How many of a prompt's first blocks it has, or will have soon. */
  matched(hashes: readonly number[]): number {
    let matched = 0;
    while (matched < hashes.length && this.counts.has(hashes[matched] as number)) matched++;
    return matched;
  }

  /** It was given a prompt with these hashes; `dropPrompt` takes that back. */
  addPrompt(hashes: readonly number[]): void {
    for (const hash of hashes) this.count(hash, 1);
  }

  dropPrompt(hashes: readonly number[]): void {
    for (const hash of hashes) this.count(hash, -1);
  }

  /** Throws Lie for what no cache could tell. */
  stored({ parent, blocks, tokenIds }: CacheStored): void {
    if (blocks.length === 0 || tokenIds.length !== blocks.length * BLOCK_TOKENS) {
      throw new Lie('cached blocks of another number of tokens');
    }
    if (tokenIds.some((id) => id >= this.vocabSize)) throw new Lie('a cached token outside the vocabulary');
    const found = parent === undefined ? undefined : this.byNumber.get(parent);
    if (parent !== undefined && !found) {
      if (this.forgetful) return;
      throw new Lie('a cached block below one that it does not hold');
    }
    this.checkNumbers(blocks);
    let above = found?.hash ?? NO_BLOCK;
    const added: CachedBlock[] = [];
    for (const [at, number] of blocks.entries()) {
      const from = at * BLOCK_TOKENS;
      const block = { hash: blockHash(above, tokenIds, from), above, ids: tokenIds.slice(from, from + BLOCK_TOKENS) };
      above = block.hash;
      this.byNumber.set(number, block);
      this.count(block.hash, 1);
      added.push(block);
    }
    this.index.added(this, added);
  }

  /** Throws Lie for a block that it does not hold. */
  removed({ blocks }: CacheRemoved): void {
    const gone: CachedBlock[] = [];
    for (const number of blocks) {
      const block = this.byNumber.get(number);
      if (!block) continue;
      this.byNumber.delete(number);
      this.count(block.hash, -1);
      gone.push(block);
    }
    this.index.removed(this, gone);
    if (gone.length < blocks.length && !this.forgetful) {
      throw new Lie('a block that it does not hold is cached no more');
    }
  }

  /** It holds nothing. */
  clear(): void {
    const gone = [...this.byNumber.values()];
    this.byNumber.clear();
    for (const { hash } of gone) this.count(hash, -1);
    this.index.removed(this, gone);
    this.forgetful = false;
  }

  /** Drops what it told: it is too much. It goes on telling of it. */
  forget(): void {
    this.clear();
    this.forgetful = true;
  }

  private checkNumbers(blocks: readonly number[]): void {
    if (blocks.some((number) => number >= this.numbers)) throw new Lie('a cached block that its pool does not have');
    if (new Set(blocks).size < blocks.length || blocks.some((number) => this.byNumber.has(number))) {
      throw new Lie('a block cached twice');
    }
  }

  private count(hash: number, by: 1 | -1): void {
    const count = (this.counts.get(hash) ?? 0) + by;
    if (count > 0) this.counts.set(hash, count);
    else this.counts.delete(hash);
  }
}
