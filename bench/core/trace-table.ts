import { BenchEngine, type Job } from './bench-engine.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import type { Setting } from './setting.ts';
import { percentile } from './stats.ts';
import { promptOf, readTrace, type Trace } from './trace.ts';
import { causalKeys } from './work.ts';

interface Replayed {
  readonly jobs: readonly Job[];
  readonly ms: number;
  readonly steps: number;
}

/** A trace replayed as it was written: requests come when they come, whether or not those before are done. */
export async function traceTable(setting: Setting): Promise<BenchTable> {
  const { runner, request } = setting;
  const trace = readTrace(request.trace.text, runner.limits.contextLength, request.trace.block);
  // Once without measuring: the first steps of a runner are slow.
  await replay(setting, { ...trace, requests: trace.requests.slice(0, 4) }, true);
  const rows: BenchRow[] = [];
  for (const prefixCache of [false, true])
    rows.push(row(setting, trace, prefixCache, await replay(setting, trace, prefixCache)));
  const span = trace.requests.at(-1)!.at / request.trace.speed / 1_000;
  return {
    name: 'trace',
    title: `Trace ${request.trace.name}: ${trace.requests.length} requests in ${fixed(span, 1)} s, a hash is ${trace.block} tokens (engine)`,
    columns: [
      'prefix cache',
      'TTFT ms p50',
      'p95',
      'p99',
      'TPOT ms p50',
      'p95',
      'p99',
      'hit rate',
      'output tok/s',
      'all tok/s',
      'done in s',
      'of roofline',
    ],
    rows,
  };
}

async function replay({ runner, model, request }: Setting, trace: Trace, prefixCache: boolean): Promise<Replayed> {
  const bench = new BenchEngine(runner, model.tokens, { prefixCache });
  const startedAt = performance.now();
  const jobs: Job[] = [];
  for (const each of trace.requests) {
    const wait = each.at / request.trace.speed - (performance.now() - startedAt);
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    jobs.push(bench.submit(promptOf(each, trace.block, model.llama.vocabSize), each.output).job);
  }
  await Promise.all(jobs.map((job) => job.ended));
  await bench.stop();
  return { jobs, ms: performance.now() - startedAt, steps: bench.steps.reduce((sum, { steps }) => sum + steps, 0) };
}

function row({ work }: Setting, { requests }: Trace, prefixCache: boolean, { jobs, ms, steps }: Replayed): BenchRow {
  const ttft = jobs.map((job) => job.times[0]! - job.submittedAt);
  const tpot = jobs
    .filter(({ times }) => times.length > 1)
    .map(({ times }) => (times.at(-1)! - times[0]!) / (times.length - 1));
  const cached = jobs.reduce((sum, job) => sum + job.cachedTokens, 0);
  const input = requests.reduce((sum, each) => sum + each.input, 0);
  const output = requests.reduce((sum, each) => sum + each.output, 0);
  const keys = requests.reduce((sum, each, i) => sum + causalKeys(jobs[i]!.cachedTokens, each.input + each.output), 0);
  const share = work.share({ rows: input - cached + output, logitsRows: output, keys, steps }, ms);
  const seconds = ms / 1_000;
  const percentiles = (values: readonly number[]) => [0.5, 0.95, 0.99].map((at) => percentile(values, at));
  const [ttfts, tpots] = [percentiles(ttft), percentiles(tpot)];
  return {
    cells: [
      prefixCache ? 'on' : 'off',
      ...ttfts.map((value) => fixed(value, 1)),
      ...tpots.map((value) => fixed(value)),
      percent(cached / input),
      fixed(output / seconds, 1),
      fixed((input + output) / seconds, 1),
      fixed(seconds, 1),
      percent(share),
    ],
    holds: undefined,
    bar: '',
    data: {
      ...Object.fromEntries(['50', '95', '99'].map((at, i) => [`ttftP${at}`, ttfts[i]])),
      ...Object.fromEntries(['50', '95', '99'].map((at, i) => [`tpotP${at}`, tpots[i]])),
      hitRate: cached / input,
      outputTokensPerSecond: output / seconds,
      tokensPerSecond: (input + output) / seconds,
      seconds,
      share,
    },
  };
}
