import { BenchEngine } from './bench-engine.ts';
import type { ModelSetting } from './run-model.ts';
import { median } from './stats.ts';

/** Steps before the engine knows its pace. */
const WARM_UP_STEPS = 2;
/** What decode takes at least and at most. */
const LEAST_MS = 1_500;
const MOST_MS = 30_000;

/** Milliseconds from `batch` prompts, which share nothing, to the first token of each. */
export async function prefillMs({ runner, model, request, random }: ModelSetting, batch: number): Promise<number> {
  const bench = new BenchEngine(runner, model.tokens, { prefixCache: false });
  const { promptTokens } = request;
  const prompts = Array.from({ length: batch }, () => randomPrompt(random, model.config.vocabSize, promptTokens));
  const startedAt = performance.now();
  await Promise.all(prompts.map((prompt) => bench.submit(prompt, 1).job.ended));
  const ms = performance.now() - startedAt;
  await bench.stop();
  return ms;
}

/** Milliseconds of a decode step with `batch` rows, the median, each row behind a prompt of `promptTokens`. */
export async function decodeMs(
  { runner, model, request, random }: ModelSetting,
  batch: number,
  promptTokens: number,
  mostMs: number,
): Promise<number> {
  const bench = new BenchEngine(runner, model.tokens, { prefixCache: false });
  for (let i = 0; i < batch; i++) {
    bench.submit(randomPrompt(random, model.config.vocabSize, promptTokens), request.newTokens);
  }
  let startedAt: number | undefined;
  const whole = () => bench.steps.filter(({ decodeRows, prefillRows }) => decodeRows === batch && prefillRows === 0);
  const least = Math.min(mostMs, LEAST_MS);
  const most = Math.min(mostMs, MOST_MS);
  await bench.until(() => {
    const steps = whole().length;
    if (steps === 0) return bench.engine.idle;
    startedAt ??= performance.now();
    const ms = performance.now() - startedAt;
    return bench.engine.idle || (steps > WARM_UP_STEPS && ms > least && steps > 4) || (steps > 1 && ms > most);
  });
  await bench.stop();
  const steps = whole();
  if (steps.length === 0) throw new Error(`no step decoded ${batch} rows: more new tokens would leave time for one`);
  return median(steps.slice(Math.min(WARM_UP_STEPS, steps.length - 1)).map((step) => step.ms / step.steps));
}

export function randomPrompt(
  random: { integer(from: number, to: number): number },
  vocabSize: number,
  length: number,
): number[] {
  return Array.from({ length }, () => random.integer(3, vocabSize - 1));
}
