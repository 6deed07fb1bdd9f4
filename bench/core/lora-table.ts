import { adapterSites, SITE_KINDS } from '../../src/model/adapter-sites.ts';
import { randomAdapter } from '../../src/model/testing/random-adapter.ts';
import { BenchEngine } from './bench-engine.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import { randomPrompt, type Setting } from './setting.ts';
import { median } from './stats.ts';

/** Slots of the bench's runner, which cost nothing before the table loads adapters. */
export const LORA_ADAPTERS = { most: 16, maxRank: 16 } as const;
const BATCH = 8;
const WARM_UP_STEPS = 2;
const LEAST_STEPS = 7;
const MOST_TOKENS = 256;
/** Of the speed without adapters. */
const LEAST = 0.6;

/** Ids of the rows' adapters. */
type Rows = readonly (string | undefined)[];

interface Line {
  readonly name: string;
  readonly rows: Rows;
  /** Of all adapters of its rows. */
  readonly ranks: number;
  /** Of its rows, together. */
  readonly rowRanks: number;
}

/**
 * Decode of 8 rows with adapters of their own, of one, and with none, through the engine; adapters change every product. Lines take
 * turns, over as many steps, so that they see the same contexts; a line's ratio is to the turn without adapters of its own round.
 */
export async function loraTable(setting: Setting): Promise<BenchTable> {
  const { runner, model, request, roofline } = setting;
  const bench = new BenchEngine(runner, model.tokens, { prefixCache: false });
  const none: Rows = new Array(BATCH).fill(undefined);
  const tokens = await tokensOf(setting, bench, none);
  const before = await stepMs(setting, bench, none, tokens);
  for (const rank of [8, LORA_ADAPTERS.maxRank]) {
    for (let i = 0; i < BATCH; i++) {
      const files = randomAdapter(i, model.config, { rank, size: 0.01 });
      await bench.engine.lora.load({ id: `${rank}/${i}`, ...files });
    }
  }
  const ids = bench.engine.lora.list().map(({ id }) => id);
  const all: readonly Line[] = [
    { name: 'none', rows: none, ranks: 0, rowRanks: 0 },
    { name: 'one of rank 8, in one row', rows: [ids[0], ...none.slice(1)], ranks: 8, rowRanks: 8 },
    { name: 'one of rank 8', rows: new Array(BATCH).fill(ids[0]), ranks: 8, rowRanks: 8 * BATCH },
    { name: 'eight of rank 8', rows: ids.slice(0, BATCH), ranks: 8 * BATCH, rowRanks: 8 * BATCH },
    { name: 'eight of rank 16', rows: ids.slice(BATCH), ranks: 16 * BATCH, rowRanks: 16 * BATCH },
  ];
  const { lines: texts } = request.only ?? {};
  const lines = all.filter(({ name }) => name === 'none' || !texts || texts.some((text) => name.includes(text)));
  const turns = new Map<string, number[]>(lines.map(({ name }) => [name, []]));
  for (let round = 0; round < (request.quick ? 5 : 9); round++) {
    for (const { name, rows } of lines) turns.get(name)!.push(await stepMs(setting, bench, rows, tokens));
  }
  const plain = turns.get('none')!;
  const unloaded: Line = { ...all[0]!, name: 'none, before any was loaded' };
  return {
    name: 'lora',
    title: `Decode of ${BATCH} rows with LoRA adapters (engine, ${tokens} tokens each; medians of ${plain.length} rounds, fastest and slowest; copy ${fixed(roofline.copyGBs)} GB/s)`,
    columns: ['adapters', 'ms a step', 'tokens/s', 'of the speed of none', 'of roofline'],
    rows: [
      row(setting, unloaded, tokens, [before], [median(plain)]),
      ...lines.map((line) => row(setting, line, tokens, turns.get(line.name)!, plain)),
    ],
  };
}

/** `plain`: what each of `turns` is held against. */
function row(
  setting: Setting,
  line: Line,
  tokens: number,
  turns: readonly number[],
  plain: readonly number[],
): BenchRow {
  const ms = median(turns);
  const ratios = turns.map((turn, i) => plain[i]! / turn);
  const [ratio, least, most] = [median(ratios), Math.min(...ratios), Math.max(...ratios)];
  const share = leastMs(setting, line, tokens) / ms;
  // The bar is for the rank that PEFT takes where nothing is said.
  const barred = line.name === 'eight of rank 8';
  const spread = (from: number, to: number) => (turns.length > 1 ? ` (${fixed(from)}–${fixed(to)})` : '');
  const alone = line.rows.every((id) => id === undefined);
  return {
    cells: [
      ...[line.name, `${fixed(ms)}${spread(Math.min(...turns), Math.max(...turns))}`, fixed((BATCH * 1_000) / ms, 2)],
      ...[`${fixed(ratio)}${alone ? '' : spread(least, most)}`, percent(share)],
    ],
    holds: barred ? ratio >= LEAST : undefined,
    bar: barred ? `≥ ${LEAST} ×` : '',
    data: { ms, fastestMs: Math.min(...turns), slowestMs: Math.max(...turns), ratio, least, most, share },
  };
}

/** What a step takes at least: as Work has it, with the adapters' numbers. */
function leastMs({ work, model, roofline }: Setting, { ranks, rowRanks }: Line, tokens: number): number {
  const ofRank = adapterSites(model.config)
    .flatMap((sites) => SITE_KINDS.flatMap((kind) => sites[kind]?.modules ?? []))
    .reduce((sum, { inputs, count }) => sum + inputs + count, 0);
  const step = { rows: BATCH, logitsRows: BATCH, keys: (BATCH * tokens) / 2, steps: 1 };
  const bytes = work.bytes(step) + 4 * ranks * ofRank;
  const flops = work.flops(step) + 2 * rowRanks * ofRank;
  return Math.max(bytes / roofline.copyGBs, flops / roofline.gflops) / 1e6;
}

/** How many tokens a turn takes. */
async function tokensOf(setting: Setting, bench: BenchEngine, rows: Rows): Promise<number> {
  const ms = await stepMs(setting, bench, rows, WARM_UP_STEPS + LEAST_STEPS);
  const most = Math.min(MOST_TOKENS, setting.runner.limits.contextLength - 1);
  return Math.min(most, Math.max(WARM_UP_STEPS + LEAST_STEPS, Math.ceil((setting.request.quick ? 300 : 600) / ms)));
}

/** The median step of a turn. */
async function stepMs(setting: Setting, bench: BenchEngine, rows: Rows, tokens: number): Promise<number> {
  const jobs = rows.map((id) => bench.submit(randomPrompt(setting, 1), tokens, undefined, id).job);
  const first = bench.steps.length;
  await Promise.all(jobs.map((job) => job.ended));
  await bench.stop();
  const whole = bench.steps.slice(first).filter((step) => step.decodeRows === BATCH && step.prefillRows === 0);
  return median(whole.slice(Math.min(WARM_UP_STEPS, whole.length - 1)).map((step) => step.ms / step.steps));
}
