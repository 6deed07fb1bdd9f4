/** The latest so many steps count. */
const MEMORY_STEPS = 64;
/** Fewer say nothing: the first have yet to find out how many of them a readback takes. */
const LEAST_STEPS = 128;

interface Speed {
  ms: number;
  steps: number;
  /** All that were measured. */
  known: number;
}

/** What a decode step without drafts takes as it really runs: several a readback, and one while the next is planned. */
export class PlainSpeed {
  readonly #speeds = new Map<string, Speed>();

  /** Milliseconds of a step of so many sequences; undefined: not known. `repeatable`: readbacks may have several. */
  stepMs(sequences: number, repeatable: boolean): number | undefined {
    const speed = this.#speeds.get(key(sequences, repeatable));
    return speed && speed.known >= LEAST_STEPS ? speed.ms / speed.steps : undefined;
  }

  add(sequences: number, repeatable: boolean, steps: number, ms: number): void {
    const speed = this.#speeds.get(key(sequences, repeatable)) ?? { ms: 0, steps: 0, known: 0 };
    this.#speeds.set(key(sequences, repeatable), speed);
    const usual = speed.known >= LEAST_STEPS ? speed.ms / speed.steps : Number.POSITIVE_INFINITY;
    const kept = Math.exp(-steps / MEMORY_STEPS);
    // What comes on top, of more than one step's time, was something else's: of a single step with drafts no more counts either.
    speed.ms = speed.ms * kept + Math.min(ms, (steps + 1) * usual);
    speed.steps = speed.steps * kept + steps;
    speed.known += steps;
  }
}

function key(sequences: number, repeatable: boolean): string {
  return `${sequences} ${repeatable}`;
}
