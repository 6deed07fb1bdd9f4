/**
 * How long a constraint that looks cheap may compile before it counts as dear. Each that doesn't keep within it halves it,
 * down to the least, so that many that only look cheap cost those behind them a second or two and then little each; each
 * that does doubles it again, up to the most.
 */
export class CheapSlice {
  readonly #most: number;
  readonly #least: number;
  #ms: number;

  constructor(mostMs: number, leastMs: number) {
    this.#most = mostMs;
    this.#least = Math.min(leastMs, mostMs);
    this.#ms = mostMs;
  }

  /** Milliseconds. */
  get ms(): number {
    return this.#ms;
  }

  /** Some of late were over it. */
  get isShort(): boolean {
    return this.#ms < this.#most;
  }

  overrun(): void {
    this.#ms = Math.max(this.#least, this.#ms / 2);
  }

  kept(): void {
    this.#ms = Math.min(this.#most, this.#ms * 2);
  }
}
