import { BenchEngine } from './bench-engine.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import { randomPrompt, type Setting } from './setting.ts';
import { median } from './stats.ts';
import { causalKeys } from './work.ts';

/** Tokens of the prompts: long for the bundled model, short for what takes a software adapter seconds. */
const SMALL_PROMPT = 480;
const SOFTWARE_PROMPT = 160;
const GPU_PROMPT = 2_000;
const SHARED = 0.9;
const LEAST_RATIO = 5;
const SMALL_WEIGHTS = 10_000_000;

/** Time to first token of a prompt of which nine tenths are cached, against one of which nothing is. */
export async function prefixTable(setting: Setting): Promise<BenchTable> {
  const { runner, model, work, software, request } = setting;
  const wanted = work.layerWeights < SMALL_WEIGHTS ? SMALL_PROMPT : software ? SOFTWARE_PROMPT : GPU_PROMPT;
  const length = Math.min(wanted, runner.limits.contextLength - 16);
  const shared = Math.round(length * SHARED);
  const bench = new BenchEngine(runner, model.tokens);
  const times = { none: [] as number[], shared: [] as number[] };
  let cached = 0;
  const samples = request.quick ? 3 : 5;
  // The first pair warms up.
  for (let i = 0; i <= samples; i++) {
    const prompt = randomPrompt(setting, length);
    const fresh = await firstToken(bench, prompt);
    const again = await firstToken(bench, [...prompt.slice(0, shared), ...randomPrompt(setting, length - shared)]);
    if (i === 0) continue;
    times.none.push(fresh.ms);
    times.shared.push(again.ms);
    cached = again.cachedTokens;
  }
  const none = median(times.none);
  const ratio = none / median(times.shared);
  const row = (label: string, ms: number, from: number, bar?: boolean): BenchRow => {
    const rows = length - from;
    const steps = Math.ceil(rows / 192);
    const share = work.share({ rows, logitsRows: 1, keys: causalKeys(from, length), steps }, ms);
    return {
      cells: [label, String(length), String(from), fixed(ms), fixed(none / ms), percent(share)],
      holds: bar,
      bar: bar === undefined ? '' : `≥ ${LEAST_RATIO} ×`,
      data: { promptTokens: length, cachedTokens: from, ms, ratio: none / ms, share },
    };
  };
  return {
    name: 'prefix',
    title: `Time to first token with 90 % of the prompt cached (engine, median of ${samples})`,
    columns: ['prefix', 'prompt', 'cached', 'TTFT ms', '× better', 'of roofline'],
    rows: [row('none', none, 0), row('shared', median(times.shared), cached, ratio >= LEAST_RATIO)],
  };
}

async function firstToken(bench: BenchEngine, prompt: readonly number[]) {
  const { job } = bench.submit(prompt, 1);
  await job.ended;
  return { ms: job.times[0]! - job.submittedAt, cachedTokens: job.cachedTokens };
}
