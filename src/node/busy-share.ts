/** Share of the last seconds in which steps ran, counted in slices of a second. */
export class BusyShare {
  readonly #now: () => number;
  /** Milliseconds of steps in each slice, and which slice of time it is. */
  readonly #ms: Float64Array;
  readonly #slice: Float64Array;
  readonly #startedAt: number;

  constructor(windowSeconds: number, now: () => number) {
    this.#now = now;
    this.#ms = new Float64Array(windowSeconds);
    this.#slice = new Float64Array(windowSeconds).fill(-1);
    this.#startedAt = now();
  }

  /** A step ended just now that took so many milliseconds. */
  add(ms: number): void {
    let end = this.#now();
    for (let left = ms; left > 0 && end > 0; ) {
      const slice = Math.ceil(end / 1000) - 1;
      const part = Math.min(left, end - slice * 1000);
      const at = slice % this.#ms.length;
      // Older than all that is kept.
      if (this.#slice[at]! > slice) return;
      if (this.#slice[at] !== slice) {
        this.#slice[at] = slice;
        this.#ms[at] = 0;
      }
      this.#ms[at]! += part;
      left -= part;
      end -= part;
    }
  }

  /** From 0 to 1. */
  share(): number {
    const now = this.#now();
    const newest = Math.floor(now / 1000);
    const oldest = newest - this.#ms.length + 1;
    let busy = 0;
    for (let at = 0; at < this.#ms.length; at++) if (this.#slice[at]! >= oldest) busy += this.#ms[at]!;
    const windowMs = now - Math.max(oldest * 1000, this.#startedAt);
    return windowMs > 0 ? Math.min(1, busy / windowMs) : 0;
  }
}
