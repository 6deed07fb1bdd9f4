/** Wakes whoever waits for something to change. A waiter checks its condition again after each wake. */
export class Signal {
  private waiters: (() => void)[] = [];

  /** Settles at the next `notify`. */
  wait(): Promise<void> {
    return new Promise((resolve) => this.waiters.push(resolve));
  }

  notify(): void {
    const { waiters } = this;
    this.waiters = [];
    for (const wake of waiters) wake();
  }
}
