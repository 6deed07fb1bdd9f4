import { setTimeout as sleep } from 'node:timers/promises';
import type { Runner, RunnerLimits, SampledRow, StepBatch } from '../../src/model/runner.ts';

/** A runner whose steps take as long as a test wants: a device that is slow, or whose machine stands still. */
export class PacedRunner implements Runner {
  readonly #inner: Runner;
  /** Of a step, in milliseconds. */
  stepMs: number;
  #still: Promise<unknown> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(inner: Runner, stepMs: number) {
    this.#inner = inner;
    this.stepMs = stepMs;
  }

  get limits(): RunnerLimits {
    return this.#inner.limits;
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

  /** No step ends for `ms`. */
  async freeze(ms: number): Promise<void> {
    const still = sleep(ms);
    this.#still = still;
    await still;
    if (this.#still === still) this.#still = undefined;
  }

  async step(batch: StepBatch): Promise<SampledRow[]> {
    const rows = this.#inner.step(batch);
    // One after the other, as on a GPU.
    const ended = this.#last.then(() => this.#pass((batch.repeat ?? 1) * this.stepMs));
    this.#last = ended;
    await ended;
    return rows;
  }

  drawMasked(masks: readonly (Uint32Array | undefined)[]): void {
    this.#inner.drawMasked(masks);
  }

  destroy(): void {
    this.#inner.destroy();
  }

  async #pass(ms: number): Promise<void> {
    await sleep(ms);
    while (this.#still) await this.#still;
  }
}
