import { Lie } from './lie.ts';

/** Flushes that a node may owe an answer to; one that answers none gets no more. */
const MAX_UNANSWERED = 64;

/** What a node's prefix cache gave back. */
export interface Flushed {
  readonly freedTokens: number;
  /** What stayed cached, locked by what runs; undefined where the node doesn't tell. */
  readonly keptTokens: number | undefined;
}

/** The flushes that one session's node was asked for and has not answered, however long ago. */
export class PendingFlushes {
  private readonly unanswered = new Map<bigint, (answer: Flushed | undefined) => void>();
  private lastId = 0n;

  /** A new flush. Its answer is undefined where the session ends first. Undefined: the node owes too many. */
  ask(): { readonly id: bigint; readonly answer: Promise<Flushed | undefined> } | undefined {
    if (this.unanswered.size >= MAX_UNANSWERED) return undefined;
    const id = ++this.lastId;
    return { id, answer: new Promise((resolve) => this.unanswered.set(id, resolve)) };
  }

  /** Throws Lie for a flush that was never asked for, or was answered before. */
  answer(id: bigint, flushed: Flushed): void {
    const settle = this.unanswered.get(id);
    if (!settle) throw new Lie('an answer to no flush');
    this.unanswered.delete(id);
    settle(flushed);
  }

  /** No answer will come. */
  clear(): void {
    for (const settle of this.unanswered.values()) settle(undefined);
    this.unanswered.clear();
  }
}
