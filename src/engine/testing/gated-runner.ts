import type { Runner, RunnerLimits, SampledRow, StepBatch } from '../../model/runner.ts';

/** A runner whose steps end when the test says so: a device that is slow, or stands still. */
export class GatedRunner implements Runner {
  readonly limits: RunnerLimits;
  readonly #inner: Runner;
  readonly #held: (() => void)[] = [];
  #open = false;
  steps = 0;
  /** Of them: several decode steps for one readback. */
  repeatedSteps = 0;

  /** `blocks`: use fewer than the runner has. */
  constructor(inner: Runner, limits: { readonly blocks?: number } = {}) {
    this.#inner = inner;
    this.limits = { ...inner.limits, ...limits };
  }

  get weightBytes(): number {
    return this.#inner.weightBytes;
  }

  get kvBytes(): number {
    return this.#inner.kvBytes;
  }

  get allocatedBytes(): number {
    return this.#inner.allocatedBytes;
  }

  async step(batch: StepBatch): Promise<SampledRow[]> {
    this.steps++;
    if ((batch.repeat ?? 1) > 1) this.repeatedSteps++;
    // Computed at once, told later: as on a GPU, steps are done in the order in which they were submitted.
    const rows = this.#inner.step(batch);
    if (!this.#open) await new Promise<void>((resolve) => this.#held.push(resolve));
    return rows;
  }

  /** Lets up to `count` held steps end, the oldest first, and gives the engine its turn after each. */
  async release(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const next = this.#held.shift();
      if (!next) return;
      next();
      await turn();
    }
  }

  /** Holds nothing any more. */
  async openForGood(): Promise<void> {
    this.#open = true;
    await this.release(Number.POSITIVE_INFINITY);
  }

  destroy(): void {
    this.#inner.destroy();
  }
}

/** Lets everything that is ready run. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
