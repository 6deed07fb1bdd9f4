import { BenchEngine } from './bench-engine.ts';
import { type BenchTable, fixed, percent } from './report.ts';
import { randomPrompt, type Setting } from './setting.ts';
import { median, percentile } from './stats.ts';

const BATCHES = [1, 16, 64] as const;
const BAR_BATCH = 16;
const MOST_MS = 1.0;
/** All decode from the start: none waits while others prefill. */
const PROMPT = 1;
const TOKENS = 300;

/** What the host does a step (planning, encoding, taking results), on the bundled model, which makes the most steps. */
export async function hostTable(setting: Setting): Promise<BenchTable> {
  const { runner, model, work, request } = setting;
  const rows = [];
  for (const batch of BATCHES) {
    const bench = new BenchEngine(runner, model.tokens);
    const jobs = Array.from(
      { length: batch },
      () => bench.submit(randomPrompt(setting, PROMPT), request.quick ? 120 : TOKENS).job,
    );
    await Promise.all(jobs.map((job) => job.ended));
    await bench.stop();
    const steps = bench.steps.filter(({ decodeRows, prefillRows }) => decodeRows > 0.75 * batch && prefillRows === 0);
    const hostMs = steps.map((step) => step.hostMs);
    const ms = median(steps.map((step) => step.ms / step.steps));
    const made = steps.reduce((sum, step) => sum + step.steps, 0) / steps.length;
    const share = work.share({ rows: batch, logitsRows: batch, keys: batch * 150, steps: 1 }, ms);
    const barred = batch === BAR_BATCH && model.name === 'stories260K';
    rows.push({
      cells: [
        String(batch),
        fixed(median(hostMs), 3),
        fixed(percentile(hostMs, 0.95), 3),
        fixed(made, 1),
        fixed(median(steps.map((step) => step.hostMs / step.steps)), 3),
        fixed(ms),
        percent(share),
      ],
      holds: barred ? median(hostMs) <= MOST_MS : undefined,
      bar: barred ? '≤ 1.0 ms' : '',
      data: { batch, hostMs: median(hostMs), hostP95: percentile(hostMs, 0.95), tokensAStep: made, stepMs: ms, share },
    });
  }
  return {
    name: 'host',
    title: 'Host time a step: plan, encode, take results (engine; a step is one submit of several decode steps)',
    columns: ['batch', 'host ms', 'p95', 'decodes a step', 'host ms a decode', 'ms a decode', 'of roofline'],
    rows,
  };
}
