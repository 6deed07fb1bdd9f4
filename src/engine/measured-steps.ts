import type { Pace } from './pace.ts';
import type { Speculating } from './speculation.ts';
import type { StepInFlight } from './steps-in-flight.ts';

/** How long steps took, told to whoever plans by it. */
export class MeasuredSteps {
  readonly #pace: Pace;
  readonly #speculation: Speculating | undefined;
  /** When the last one ended, or the rest behind it. */
  #lastEnd = Number.NEGATIVE_INFINITY;
  /** There has been something to do since. */
  #busy = false;

  constructor(pace: Pace, speculation: Speculating | undefined) {
    this.#pace = pace;
    this.#speculation = speculation;
  }

  /** Nothing was to be done until `now` but to wait, for no step's sake. */
  rested(now: number): void {
    if (this.#busy) this.#lastEnd = now;
  }

  /** Nobody runs. */
  idle(): void {
    this.#busy = false;
  }

  /**
   * A step ended and brought `tokens`; `repeatable`: its rows may be repeated. Returns its milliseconds, from the end of the step before,
   * or its own submit.
   */
  took({ plan, submittedAt, planMs }: StepInFlight, repeatable: boolean, tokens: number, endedAt: number): number {
    const { decodeRows, draftRows, prefillRows } = plan;
    const steps = plan.batch.repeat ?? 1;
    const ms = endedAt - Math.max(this.#lastEnd, submittedAt);
    // With what nothing ran in, if something could have.
    const wholeMs = this.#busy ? endedAt - this.#lastEnd : endedAt - submittedAt + planMs;
    this.#lastEnd = endedAt;
    this.#busy = true;
    const decodes = { sequences: decodeRows, repeatable, draftRows, steps, tokens, ms: wholeMs };
    const usual = prefillRows > 0 || (this.#speculation?.measured(decodes) ?? true);
    if (usual && draftRows === 0) this.#pace.measured({ decodeRows, prefillRows, steps, ms });
    return ms;
  }
}
