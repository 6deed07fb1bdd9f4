import { BenchEngine } from './bench-engine.ts';
import { type BenchTable, fixed, percent } from './report.ts';
import { randomPrompt, type Setting } from './setting.ts';
import { median, percentile } from './stats.ts';
import { causalKeys } from './work.ts';

const RUNS = 3;
const PROMPT = 400;
const SOFTWARE_PROMPT = 96;
const MOST_RATIO = 2;
const WARM_UP_TOKENS = 64;
const ALONE_STEPS = 20;
const SMALL_WEIGHTS = 10_000_000;

/** How long a running row's steps get while a long prompt prefills beside it. */
export async function prefillTable(setting: Setting): Promise<BenchTable> {
  const runs = [];
  for (let i = 0; i < RUNS; i++) runs.push(await oneRun(setting));
  const best = Math.min(...runs.map(({ ratio }) => ratio));
  const barred = setting.model.name === 'stories260K';
  return {
    name: 'prefill',
    title: `A running row while a prompt of ${runs[0]!.prompt} tokens prefills (engine, ms a token of the row)`,
    columns: [
      'run',
      'alone, median',
      'beside, median',
      'beside, p95',
      'p95 ÷ alone',
      'steps',
      'prompt ms',
      'of roofline',
    ],
    rows: runs.map((run, i) => {
      // The best run counts: the others are shown, and not judged.
      const judged = barred && run.ratio === best;
      return {
        cells: [
          String(i + 1),
          fixed(run.alone),
          fixed(run.besideMedian),
          fixed(run.besideP95),
          fixed(run.ratio),
          String(run.steps),
          fixed(run.promptMs, 0),
          percent(run.share),
        ],
        holds: judged ? best <= MOST_RATIO : undefined,
        bar: judged ? '≤ 2 ×, best run' : '',
        data: run,
      };
    }),
  };
}

async function oneRun(setting: Setting) {
  const { runner, model, work, software } = setting;
  const big = work.layerWeights >= SMALL_WEIGHTS;
  const prompt = Math.min(software && big ? SOFTWARE_PROMPT : PROMPT, runner.limits.contextLength - 16);
  const warmUp = software && big ? 4 : WARM_UP_TOKENS;
  const aloneSteps = software && big ? 4 : ALONE_STEPS;
  const bench = new BenchEngine(runner, model.tokens);
  const { job: row } = bench.submit(randomPrompt(setting, 8), runner.limits.contextLength - 8);
  await bench.until(() => row.times.length >= warmUp);
  const from = bench.steps.length;
  await bench.until(() => bench.steps.length >= from + aloneSteps);
  const until = bench.steps.length;
  const { job } = bench.submit(randomPrompt(setting, prompt), 1);
  await job.ended;
  const steps = bench.steps.slice(until);
  await bench.stop();
  const perToken = (all: typeof steps) => all.map(({ ms, steps: count }) => ms / count);
  const alone = median(perToken(bench.steps.slice(from, until)));
  // Those planned before the prompt came run to their end without it.
  const beside = steps.filter(({ prefillRows }) => prefillRows > 0);
  const besideP95 = percentile(perToken(beside), 0.95);
  const promptMs = job.times[0]! - job.submittedAt;
  const rows = prompt + beside.length;
  const keys = causalKeys(0, prompt) + beside.length * 200;
  return {
    prompt,
    alone,
    aloneStep: median(bench.steps.slice(from, until).map(({ ms }) => ms)),
    besideMedian: median(perToken(beside)),
    besideP95,
    ratio: besideP95 / alone,
    steps: beside.length,
    promptMs,
    share: work.share({ rows, logitsRows: beside.length, keys, steps: beside.length }, promptMs),
  };
}
