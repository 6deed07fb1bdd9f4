import type { Runner, SampledRow } from '../model/runner.ts';
import { StepError } from '../model/step-error.ts';
import { withinStepBound } from './step-bound.ts';
import type { Plan, WantedRow } from './step-builder.ts';

export interface StepInFlight {
  readonly plan: Plan;
  readonly rows: Promise<readonly SampledRow[]>;
  readonly submittedAt: number;
  /** What planning and encoding took. */
  readonly planMs: number;
  /** No step was in flight before it. */
  readonly alone: boolean;
  /** Rows of it wait for their masks: nothing else may be submitted. */
  undrawn: boolean;
}

/** A step that was done, or the reason why the runner refused it, which left no trace. */
export type StepOutcome = { readonly step: StepInFlight } & (
  | { readonly rows: readonly SampledRow[] }
  | { readonly refused: string }
);

export interface StepsInFlightOptions {
  readonly runner: Runner;
  /** Steps given to the GPU before the first of them is done. */
  readonly most: number;
  /** The masks of a step's masked rows. */
  readonly masks: (rows: readonly WantedRow[]) => Promise<(Uint32Array | undefined)[]>;
  readonly now: () => number;
}

/** The steps that the runner has, in order. */
export class StepsInFlight {
  readonly #options: StepsInFlightOptions;
  readonly #steps: StepInFlight[] = [];

  constructor(options: StepsInFlightOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#steps.length;
  }

  /** Another step may be submitted now. */
  get open(): boolean {
    return this.#steps.length < this.#options.most && !this.#steps.at(-1)?.undrawn;
  }

  /** `startedAt`: when its planning began. */
  submit(plan: Plan, startedAt: number): void {
    const { runner, now } = this.#options;
    const rows = runner.step(plan.batch);
    // A step behind one that fails is never waited for.
    rows.catch(() => {});
    const submittedAt = now();
    const planMs = submittedAt - startedAt;
    const alone = this.#steps.length === 0;
    this.#steps.push({ plan, rows, submittedAt, planMs, alone, undrawn: plan.masked.length > 0 });
  }

  /**
   * What came of the oldest step; 'drawn': it had waited for its masks, and others may be submitted behind it. There has
   * to be one. Rejects where the runner fails.
   */
  async next(): Promise<StepOutcome | 'drawn'> {
    const step = this.#steps[0]!;
    try {
      if (step.undrawn) {
        // The steps before it are done: the masks follow from their ids.
        this.#options.runner.drawMasked(await this.#options.masks(step.plan.masked));
        step.undrawn = false;
        return 'drawn';
      }
      this.#steps.shift();
      return { step, rows: await withinStepBound(step.rows) };
    } catch (error) {
      if (!(error instanceof StepError)) throw error;
      if (step.undrawn) this.#steps.shift();
      return { step, refused: error.message };
    }
  }
}
