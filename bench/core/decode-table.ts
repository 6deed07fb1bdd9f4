import { BenchEngine } from './bench-engine.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import { randomPrompt, type Setting } from './setting.ts';
import { median } from './stats.ts';

const BATCHES = [1, 2, 4, 8, 16, 32] as const;
/** Steps that compile, warm caches, or come before the engine knows its pace; and those that a median is taken of. */
const WARM_UP_STEPS = 2;
const LEAST_STEPS = 3;
/** Where a step takes so long, one to warm up and one to measure say as much. */
const SLOW_STEP_MS = 1_500;
/** No round begins later. */
const MOST_MS = 150_000;
const MOST_TOKENS = 256;

/** Decode throughput by batch, through the engine; prompts of one token, so that every row decodes from the start. */
export async function decodeTable(setting: Setting): Promise<BenchTable> {
  const { quick } = setting.request;
  const best = new Map<number, number>();
  // A round over all batches and then another: whoever disturbs this machine disturbs them alike.
  const startedAt = performance.now();
  for (let round = 0; round < (quick ? 1 : 3); round++) {
    if (round > 0 && performance.now() - startedAt > MOST_MS) break;
    for (const batch of BATCHES) {
      const ms = await stepMs(setting, batch, quick ? 1_000 : 2_000);
      best.set(batch, Math.min(ms, best.get(batch) ?? Number.POSITIVE_INFINITY));
    }
  }
  const single = 1_000 / best.get(1)!;
  return {
    name: 'decode',
    title: `Decode throughput (engine, context below ${MOST_TOKENS}; median step of the best round)`,
    columns: ['batch', 'ms a step', 'tokens/s', '× batch 1', 'of roofline'],
    rows: BATCHES.map((batch) => row(setting, batch, best.get(batch)!, single)),
  };
}

function row({ model, software, work }: Setting, batch: number, ms: number, single: number): BenchRow {
  const perSecond = (batch * 1_000) / ms;
  const ratio = perSecond / single;
  const share = work.share({ rows: batch, logitsRows: batch, keys: 0, steps: 1 }, ms);
  // On SwiftShader the bar is set for one shape, on memory-bound adapters for models that don't fit a cache.
  const least = batch !== 8 ? undefined : software ? (model.name === 'SmolLM2-135M' ? 1.8 : undefined) : 4;
  return {
    cells: [String(batch), fixed(ms), fixed(perSecond, 2), fixed(ratio), percent(share)],
    holds: least === undefined ? undefined : ratio >= least,
    bar: least === undefined ? '' : `≥ ${least} ×`,
    data: { batch, ms, tokensPerSecond: perSecond, ratio, share },
  };
}

async function stepMs(setting: Setting, batch: number, budgetMs: number): Promise<number> {
  const { runner, model } = setting;
  const bench = new BenchEngine(runner, model.tokens, { prefixCache: false });
  const prompts = Array.from({ length: batch }, () => randomPrompt(setting, 1));
  const tokens = Math.min(MOST_TOKENS, runner.limits.contextLength - 1);
  const jobs = prompts.map((prompt) => bench.submit(prompt, tokens).job);
  const startedAt = performance.now();
  const whole = () => bench.steps.filter(({ decodeRows, prefillRows }) => decodeRows === batch && prefillRows === 0);
  const enough = () => {
    const steps = whole();
    const least = steps.some(({ ms }) => ms > SLOW_STEP_MS) ? 2 : WARM_UP_STEPS + LEAST_STEPS;
    return steps.length >= least && performance.now() - startedAt > budgetMs;
  };
  await Promise.race([Promise.all(jobs.map((job) => job.ended)), bench.until(enough)]);
  await bench.stop();
  const steps = whole();
  const measured = steps.slice(Math.min(WARM_UP_STEPS, steps.length - 1));
  return median(measured.map((step) => step.ms / step.steps));
}
