/** Counts per second over a sliding window. Times are milliseconds of a monotonic clock. */
export class Throughput {
  readonly #windowMs: number;
  readonly #now: () => number;
  #counts: { readonly at: number; readonly count: number }[] = [];

  constructor(windowMs: number, now: () => number) {
    this.#windowMs = windowMs;
    this.#now = now;
  }

  add(count: number): void {
    this.#counts.push({ at: this.#now(), count });
    this.#expire();
  }

  perSecond(): number {
    this.#expire();
    const total = this.#counts.reduce((sum, entry) => sum + entry.count, 0);
    return (total * 1000) / this.#windowMs;
  }

  #expire(): void {
    const oldest = this.#now() - this.#windowMs;
    const live = this.#counts.findIndex((entry) => entry.at > oldest);
    if (live !== 0) this.#counts = live < 0 ? [] : this.#counts.slice(live);
  }
}
