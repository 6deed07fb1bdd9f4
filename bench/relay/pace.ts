/**
 * Steps at a pace, each at its own time whatever the one before took. A timer that begins anew after each step would have all
 * that were late together step together from then on: nodes don't.
 */
export class Pace {
  readonly #stepMs: number;
  readonly #onStep: () => void;
  #due: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(stepMs: number, onStep: () => void) {
    this.#stepMs = stepMs;
    this.#onStep = onStep;
    this.#due = performance.now() + Math.random() * stepMs;
    this.#wait();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #wait(): void {
    this.#timer = setTimeout(() => this.#step(), Math.max(0, this.#due - performance.now()));
  }

  #step(): void {
    const now = performance.now();
    // Steps that were missed are, and the others stay where they were.
    do this.#due += this.#stepMs;
    while (this.#due <= now);
    this.#wait();
    this.#onStep();
  }
}
