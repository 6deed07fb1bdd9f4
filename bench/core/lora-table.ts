import { randomAdapter } from '../../src/model/testing/random-adapter.ts';
import { BenchEngine } from './bench-engine.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import { randomPrompt, type Setting } from './setting.ts';
import { median } from './stats.ts';

/** Slots of the bench's runner, which cost nothing before the table loads adapters. */
export const LORA_ADAPTERS = { most: 16, maxRank: 16 } as const;
const BATCH = 8;
const WARM_UP_STEPS = 2;
const LEAST_STEPS = 5;
const MOST_TOKENS = 256;
/** Of the speed without adapters. */
const LEAST = 0.6;

/** Ids of the rows' adapters. */
type Rows = readonly (string | undefined)[];

/** Decode of 8 rows with adapters of their own, of one, and with none, through the engine; adapters change every product. */
export async function loraTable(setting: Setting): Promise<BenchTable> {
  const { runner, model, request, roofline } = setting;
  const bench = new BenchEngine(runner, model.tokens, { prefixCache: false });
  const none: Rows = new Array(BATCH).fill(undefined);
  const before = await stepMs(setting, bench, none);
  for (const rank of [8, LORA_ADAPTERS.maxRank]) {
    for (let i = 0; i < BATCH; i++) {
      const files = randomAdapter(i, model.config, { rank, size: 0.01 });
      await bench.engine.lora.load({ id: `${rank}/${i}`, ...files });
    }
  }
  const ids = bench.engine.lora.list().map(({ id }) => id);
  const all: readonly (readonly [string, Rows])[] = [
    ['none, before any was loaded', none],
    ['none', none],
    ['one of rank 8, in one row', [ids[0], ...none.slice(1)]],
    ['one of rank 8', new Array(BATCH).fill(ids[0])],
    ['eight of rank 8', ids.slice(0, BATCH)],
    ['eight of rank 16', ids.slice(BATCH)],
  ];
  const { lines: texts } = request.only ?? {};
  const lines = all.filter(([name]) => name === 'none' || !texts || texts.some((text) => name.includes(text)));
  const best = new Map<string, number>([[all[0]![0], before]]);
  for (let round = 0; round < (request.quick ? 1 : 3); round++) {
    for (const [name, rows] of lines) {
      const ms = await stepMs(setting, bench, rows);
      best.set(name, Math.min(ms, best.get(name) ?? Number.POSITIVE_INFINITY));
    }
  }
  const plain = best.get('none')!;
  return {
    name: 'lora',
    title: `Decode of ${BATCH} rows with LoRA adapters (engine, context below ${MOST_TOKENS}; median step of the best round; copy ${fixed(roofline.copyGBs)} GB/s)`,
    columns: ['adapters', 'ms a step', 'tokens/s', 'of the speed of none', 'of roofline'],
    rows: lines.map(([name]): BenchRow => {
      const ms = best.get(name)!;
      const ratio = plain / ms;
      const share = setting.work.share({ rows: BATCH, logitsRows: BATCH, keys: 0, steps: 1 }, ms);
      // The bar is for the rank that PEFT takes where nothing is said.
      const barred = name === 'eight of rank 8';
      return {
        cells: [name, fixed(ms), fixed((BATCH * 1_000) / ms, 2), fixed(ratio), percent(share)],
        holds: barred ? ratio >= LEAST : undefined,
        bar: barred ? `≥ ${LEAST} ×` : '',
        data: { ms, ratio, share },
      };
    }),
  };
}

async function stepMs(setting: Setting, bench: BenchEngine, rows: Rows): Promise<number> {
  const tokens = Math.min(MOST_TOKENS, setting.runner.limits.contextLength - 1);
  const jobs = rows.map((id) => bench.submit(randomPrompt(setting, 1), tokens, undefined, id).job);
  const first = bench.steps.length;
  const startedAt = performance.now();
  const whole = () => bench.steps.slice(first).filter((step) => step.decodeRows === BATCH && step.prefillRows === 0);
  const budgetMs = setting.request.quick ? 500 : 1_000;
  const enough = () => whole().length >= WARM_UP_STEPS + LEAST_STEPS && performance.now() - startedAt > budgetMs;
  await Promise.race([Promise.all(jobs.map((job) => job.ended)), bench.until(enough)]);
  await bench.stop();
  const steps = whole();
  return median(steps.slice(Math.min(WARM_UP_STEPS, steps.length - 1)).map((step) => step.ms / step.steps));
}
