import { BenchEngine } from './bench-engine.ts';
import type { ModelSetting } from './run-model.ts';
import { median } from './stats.ts';

/** Steps before the engine knows its pace. */
const WARM_UP_STEPS = 2;
const LEAST_STEPS = 3;
/** What decode takes at least and at most. */
const LEAST_MS = 1_500;
const MOST_MS = 30_000;

/** The times of so many sequences, whose prompts share nothing, in an engine of their own. */
export class GenerationTimes {
  readonly #bench: BenchEngine;
  readonly #prompts: readonly (readonly number[])[];

  constructor({ runner, model, random }: ModelSetting, batch: number, promptTokens: number) {
    this.#bench = new BenchEngine(runner, model.tokens);
    this.#prompts = Array.from({ length: batch }, () => randomPrompt(random, model.config.vocabSize, promptTokens));
  }

  /** Milliseconds from the prompts to the first token of each. They are in the prefix cache then. */
  async prefillMs(): Promise<number> {
    const startedAt = performance.now();
    await Promise.all(this.#prompts.map((prompt) => this.#bench.submit(prompt, 1).job.ended));
    return performance.now() - startedAt;
  }

  /** Milliseconds of a decode step of all, the median, of at most `newTokens` tokens each. */
  async decodeMs(newTokens: number, mostMs: number): Promise<number> {
    const bench = this.#bench;
    const before = bench.steps.length;
    const batch = this.#prompts.length;
    const jobs = this.#prompts.map((prompt) => bench.submit(prompt, newTokens).job);
    const whole = () =>
      bench.steps.slice(before).filter(({ decodeRows, prefillRows }) => decodeRows === batch && prefillRows === 0);
    let startedAt: number | undefined;
    const enough = bench.until(() => {
      const { length } = whole();
      if (length === 0) return false;
      startedAt ??= performance.now();
      const ms = performance.now() - startedAt;
      if (length > 1 && ms > Math.min(mostMs, MOST_MS)) return true;
      return length >= WARM_UP_STEPS + LEAST_STEPS && ms > Math.min(mostMs, LEAST_MS);
    });
    await Promise.race([enough, Promise.all(jobs.map((job) => job.ended))]);
    await bench.stop();
    const steps = whole();
    if (steps.length === 0) throw new Error(`no step decoded ${batch} rows: more new tokens would leave time for one`);
    return median(steps.slice(Math.min(WARM_UP_STEPS, steps.length - 1)).map((step) => step.ms / step.steps));
  }
}

export function randomPrompt(
  random: { integer(from: number, to: number): number },
  vocabSize: number,
  length: number,
): number[] {
  return Array.from({ length }, () => random.integer(3, vocabSize - 1));
}
