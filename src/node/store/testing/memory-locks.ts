import type { HeldLock, LockManager } from '../store-locks.ts';

interface Waiting {
  readonly mode: 'exclusive' | 'shared';
  grant(): void;
}

/** Locks as the browser's, for one process. */
export class MemoryLocks implements LockManager {
  readonly #held = new Map<string, { mode: 'exclusive' | 'shared' }[]>();
  readonly #waiting = new Map<string, Waiting[]>();

  take(name: string, mode: 'exclusive' | 'shared', signal: AbortSignal): Promise<HeldLock> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const waiting = { mode, grant: () => resolve(this.#hold(name, mode)) };
      const queue = this.#waiting.get(name) ?? [];
      this.#waiting.set(name, [...queue, waiting]);
      signal.addEventListener('abort', () => {
        const left = this.#waiting.get(name)!.filter((one) => one !== waiting);
        this.#waiting.set(name, left);
        reject(signal.reason);
      });
      this.#grant(name);
    });
  }

  async tryTake(name: string): Promise<HeldLock | undefined> {
    return (this.#held.get(name)?.length ?? 0) > 0 ? undefined : this.#hold(name, 'exclusive');
  }

  async held(): Promise<ReadonlySet<string>> {
    return new Set([...this.#held].filter(([, locks]) => locks.length > 0).map(([name]) => name));
  }

  #hold(name: string, mode: 'exclusive' | 'shared'): HeldLock {
    const lock = { mode };
    this.#held.set(name, [...(this.#held.get(name) ?? []), lock]);
    return {
      release: () => {
        this.#held.set(
          name,
          this.#held.get(name)!.filter((one) => one !== lock),
        );
        this.#grant(name);
      },
    };
  }

  #grant(name: string): void {
    for (;;) {
      const [next, ...rest] = this.#waiting.get(name) ?? [];
      const held = this.#held.get(name) ?? [];
      const free = held.length === 0 || (next?.mode === 'shared' && held.every(({ mode }) => mode === 'shared'));
      if (!next || !free) return;
      this.#waiting.set(name, rest);
      next.grant();
    }
  }
}
