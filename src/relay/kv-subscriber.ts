import type { CachedBlock, PrefixListener } from './prefix-index.ts';
import { Signal } from './signal.ts';

/** Blocks that wait for one reader; what they say is held by the index too. */
const QUEUED_BLOCKS = 65_536;

export type PrefixChange =
  | { readonly type: 'stored'; readonly rank: number; readonly blocks: readonly CachedBlock[] }
  | { readonly type: 'removed'; readonly rank: number; readonly hashes: readonly number[] };

/** What one reader still has to be told of the fleet's prefixes; more than it may keep waiting is dropped as a whole. */
export class KvSubscriber implements PrefixListener {
  readonly changed = new Signal();
  /** It has to be told everything, and changes only after that. */
  behind = true;
  private readonly most: number;
  private queue: PrefixChange[] = [];
  private waiting = 0;

  constructor(most = QUEUED_BLOCKS) {
    this.most = most;
  }

  get empty(): boolean {
    return this.queue.length === 0;
  }

  /** It is being told everything as it is now. */
  begin(): void {
    this.behind = false;
    this.take();
  }

  take(): readonly PrefixChange[] {
    const { queue } = this;
    this.queue = [];
    this.waiting = 0;
    return queue;
  }

  onStored(rank: number, blocks: readonly CachedBlock[]): void {
    this.push({ type: 'stored', rank, blocks }, blocks.length);
  }

  onRemoved(rank: number, hashes: readonly number[]): void {
    this.push({ type: 'removed', rank, hashes }, hashes.length);
  }

  onCleared(): void {
    this.fallBehind();
    this.changed.notify();
  }

  private push(change: PrefixChange, blocks: number): void {
    if (this.behind) return;
    this.queue.push(change);
    this.waiting += blocks;
    if (this.waiting > this.most) this.fallBehind();
    this.changed.notify();
  }

  private fallBehind(): void {
    this.take();
    this.behind = true;
  }
}
