/** Wakes whoever waits for something to change. A waiter checks its condition again after each wake. */
export class Signal {
  private waiters = new Set<() => void>();
  private readonly listeners = new Set<() => void>();

  /** Those that wait now. */
  get waiting(): number {
    return this.waiters.size;
  }

  /** Settles at the next `notify`, or once `left` is aborted: nothing is kept of a waiter that has gone. */
  wait(left?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (left?.aborted) {
        resolve();
        return;
      }
      const wake = () => {
        left?.removeEventListener('abort', wake);
        this.waiters.delete(wake);
        resolve();
      };
      this.waiters.add(wake);
      left?.addEventListener('abort', wake);
    });
  }

  /** Calls `listener` at each `notify`, within it; the function returned ends that. */
  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  notify(): void {
    for (const listener of this.listeners) listener();
    const { waiters } = this;
    if (waiters.size === 0) return;
    this.waiters = new Set();
    for (const wake of waiters) wake();
  }
}
