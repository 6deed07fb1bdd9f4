/** A lock of this origin's, over all its tabs; the browser frees what a closed tab held. */
export interface HeldLock {
  release(): void;
}

export interface LockManager {
  /** Waits until the lock is free, or `signal` aborts. */
  take(name: string, mode: 'exclusive' | 'shared', signal: AbortSignal): Promise<HeldLock>;
  /** Undefined where someone holds it. */
  tryTake(name: string): Promise<HeldLock | undefined>;
  /** Names of all locks that are held. */
  held(): Promise<ReadonlySet<string>>;
}

/** What a tab tells the others of this origin, as a BroadcastChannel does. */
export interface TabChannel<T> {
  onmessage: ((event: { readonly data: T }) => void) | null;
  postMessage(message: T): void;
  close(): void;
}
