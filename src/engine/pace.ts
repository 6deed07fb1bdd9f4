import type { StepPace } from './scheduler.ts';

/** A new measurement's weight in the running averages. */
const WEIGHT = 0.2;
/** One prompt may make a step of running rows so much longer: the second half of the bound of two is left to noise. */
const PREFILL_SHARE = 0.5;
/** So many prompts at once may each do so: those who wait for their first token count too. */
const MOST_SHARES = 4;
/** Rows beside running ones before anything is known of their cost, and at least: a prompt always gets on. */
const LEAST_PREFILL_ROWS = 1;
/** A readback may cost so much of a step's time. */
const READBACK_SHARE = 0.1;
const MOST_DECODE_STEPS = 8;
/** After so many single steps, what another adds is measured anew: of other rows, or once by chance, it may have been far more. */
const MOST_SINGLE_STEPS = 16;
/** Tokens of several steps arrive together; people should not see it. */
const MOST_BURST_MS = 60;

export interface MeasuredStep {
  readonly decodeRows: number;
  readonly prefillRows: number;
  readonly steps: number;
  /** From the end of the step before, or its own submit, to its end; in milliseconds. */
  readonly ms: number;
}

/** Chooses prefill chunks and decode steps a readback from how long steps took. */
export class Pace implements StepPace {
  readonly #mostPrefillRows: number;
  /** A single step of decode rows alone, readback and all, by its number of rows: what a mixed step is set against. */
  readonly #decodeMs = new Map<number, number>();
  /** One prefill row. */
  #rowMs: number | undefined;
  /** Of the mixed step measured last: the next has half to twice as many, since costs are no straight line. */
  #lastPrefillRows = LEAST_PREFILL_ROWS;
  /** One readback with a single step, and what a step more adds. */
  #singleMs: number | undefined;
  #moreMs: number | undefined;
  /** Single steps of decode rows alone since there were several. */
  #singles = 0;

  constructor(mostPrefillRows: number) {
    this.#mostPrefillRows = mostPrefillRows;
  }

  measured({ decodeRows, prefillRows, steps, ms }: MeasuredStep): void {
    if (prefillRows === 0) {
      if (steps === 1) {
        this.#decodeMs.set(decodeRows, average(this.#decodeMs.get(decodeRows), ms));
        this.#singleMs = average(this.#singleMs, ms);
        this.#singles++;
      } else if (this.#singleMs !== undefined) {
        const before = this.#singles < MOST_SINGLE_STEPS ? this.#moreMs : undefined;
        const moreMs = Math.max(0, (ms - this.#singleMs) / (steps - 1));
        // Too little is found out by the steps that it leads to; of too much none would be left to tell.
        this.#moreMs = Math.min(moreMs, average(before, moreMs));
        this.#singles = 0;
      }
      return;
    }
    const decodeMs = decodeRows > 0 ? this.#decode(decodeRows) : 0;
    // Without a decode step to set it against, a mixed step says nothing of its prefill rows.
    if (decodeMs === undefined) return;
    this.#rowMs = average(this.#rowMs, Math.max(0, ms - decodeMs) / prefillRows);
    if (decodeRows > 0) this.#lastPrefillRows = prefillRows;
  }

  prefillRows(decodeRows: number, prompts: number): number {
    if (decodeRows === 0) return this.#mostPrefillRows;
    const shares = Math.max(1, Math.min(prompts, MOST_SHARES));
    const least = LEAST_PREFILL_ROWS * shares;
    const decodeMs = this.#decode(decodeRows);
    if (decodeMs === undefined || this.#rowMs === undefined) return least;
    const rows = Math.floor((PREFILL_SHARE * shares * decodeMs) / Math.max(this.#rowMs, 1e-6));
    const [half, twice] = [Math.floor(this.#lastPrefillRows / 2), 2 * this.#lastPrefillRows];
    return Math.max(least, half, Math.min(rows, twice, this.#mostPrefillRows));
  }

  decodeSteps(): number {
    if (this.#singleMs === undefined) return 1;
    // The first time there is nothing to set a single step against.
    if (this.#moreMs === undefined || this.#singles >= MOST_SINGLE_STEPS) return 2;
    const readbackMs = Math.max(0, this.#singleMs - this.#moreMs);
    const steps = Math.ceil(readbackMs / (READBACK_SHARE * Math.max(this.#moreMs, 1e-3)));
    const burst = Math.floor(MOST_BURST_MS / Math.max(this.#moreMs, 1e-3));
    return Math.max(1, Math.min(steps, burst, MOST_DECODE_STEPS));
  }

  /** Of the nearest number of rows that was measured. */
  #decode(rows: number): number | undefined {
    let best: { distance: number; ms: number } | undefined;
    for (const [measured, ms] of this.#decodeMs) {
      const distance = Math.abs(measured - rows);
      if (best === undefined || distance < best.distance) best = { distance, ms };
    }
    return best?.ms;
  }
}

function average(before: number | undefined, value: number): number {
  return before === undefined ? value : before + WEIGHT * (value - before);
}
