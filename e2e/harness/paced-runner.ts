import { setTimeout as sleep } from 'node:timers/promises';
import { WrappedRunner } from '../../src/engine/testing/wrapped-runner.ts';
import type { Runner, SampledRow, StepBatch } from '../../src/model/runner.ts';

/** A runner whose steps take as long as a test wants: a device that is slow, or whose machine stands still. */
export class PacedRunner extends WrappedRunner {
  /** Of a step, in milliseconds. */
  stepMs: number;
  #still: Promise<unknown> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(inner: Runner, stepMs: number) {
    super(inner);
    this.stepMs = stepMs;
  }

  /** No step ends for `ms`. */
  async freeze(ms: number): Promise<void> {
    const still = sleep(ms);
    this.#still = still;
    await still;
    if (this.#still === still) this.#still = undefined;
  }

  override async step(batch: StepBatch): Promise<SampledRow[]> {
    const rows = this.inner.step(batch);
    // One after the other, as on a GPU.
    const ended = this.#last.then(() => this.#pass((batch.repeat ?? 1) * this.stepMs));
    this.#last = ended;
    await ended;
    return rows;
  }

  async #pass(ms: number): Promise<void> {
    await sleep(ms);
    while (this.#still) await this.#still;
  }
}
