import { parseModelConfig } from '../../src/checkpoint/model-config.ts';
import { GrammarPool } from '../../src/engine/grammar/grammar-pool.ts';
import { grammarVocabulary } from '../../src/engine/grammar/grammar-vocabulary.ts';
import type { Constraint } from '../../src/engine/request.ts';
import { loadDecoder } from '../../src/model/load-decoder.ts';
import { BLOCK_TOKENS, type Runner } from '../../src/model/runner.ts';
import { BenchEngine, type Job } from './bench-engine.ts';
import { cutVocabulary, STOP_ID, UNWRITTEN } from './cut-vocabulary.ts';
import { randomCheckpoint } from './random-checkpoint.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import type { Setting } from './setting.ts';
import { median } from './stats.ts';

const VOCABULARIES = [512, 49_152, 151_936] as const;
const MOST_ROWS = 8;
const CONTEXT = 512;
/** Of greedy rows' speed. */
const LEAST_SHARE = 0.7;
/** What free rows keep of their speed beside constrained ones. */
const LEAST_KEPT = 0.9;
/** Tokens of the slowest row before measuring begins: by then the engine knows its pace. Steps are longer in others. */
const WARM_UP_TOKENS: Readonly<Record<number, number>> = { 512: 24, 49152: 6, 151936: 6 };
/** Tokens of the slowest row that are measured, at least. */
const LEAST_TOKENS = 8;

/** No output comes to its end: the vocabulary can't write the last character. */
const ENDLESS: Constraint = { kind: 'regex', text: `[a-z ,.]*${UNWRITTEN}` };

interface Case {
  readonly name: string;
  readonly free: number;
  readonly constrained: number;
  /** Free rows alone, as many as all of this case's: what it is judged against; undefined: it is that. */
  readonly barred: 'constrained' | 'free' | undefined;
}

const CASES: readonly Case[] = [
  { name: '1 free', free: 1, constrained: 0, barred: undefined },
  { name: '1 constrained', free: 0, constrained: 1, barred: 'constrained' },
  { name: '8 free', free: 8, constrained: 0, barred: undefined },
  { name: '8 constrained', free: 0, constrained: 8, barred: 'constrained' },
  { name: '4 free, 4 constrained', free: 4, constrained: 4, barred: 'free' },
  { name: '7 free, 1 constrained', free: 7, constrained: 1, barred: 'free' },
];

/** Tokens a second and row. */
interface Speeds {
  readonly free: number;
  readonly constrained: number;
}

interface Subject {
  readonly runner: Runner;
  readonly tokens: ReturnType<typeof cutVocabulary>;
  readonly grammars: GrammarPool;
}

/** Constrained decode against greedy decode, through the engine; layers of the bundled model, random weights. */
export async function grammarTable(setting: Setting): Promise<BenchTable> {
  const rows: BenchRow[] = [];
  const wanted = setting.request.only?.vocabularies ?? VOCABULARIES;
  for (const vocabulary of VOCABULARIES.filter((one) => wanted.includes(one))) {
    const subject = await open(setting, vocabulary);
    try {
      rows.push(...(await measure(setting, subject)));
    } finally {
      subject.grammars.destroy();
      subject.runner.destroy();
    }
  }
  return {
    name: 'grammar',
    title: 'Constrained decode against greedy decode (engine; layers of the bundled model, random weights)',
    columns: ['vocabulary', 'rows', 'free tokens/s', 'constrained', 'free rows alone', 'of its speed'],
    rows,
  };
}

async function open({ device, model, startGrammarWorker }: Setting, vocabulary: number): Promise<Subject> {
  const text = JSON.stringify({ ...model.config.raw, vocab_size: vocabulary });
  const config = parseModelConfig(text, `${model.name} with ${vocabulary} ids`);
  const context = Math.min(CONTEXT, config.contextLength);
  const tokens = cutVocabulary(vocabulary);
  const grammars = new GrammarPool(grammarVocabulary(tokens, vocabulary, [STOP_ID]), await startGrammarWorker());
  const runner = await loadDecoder(device, randomCheckpoint(model.name, config, 'F32'), config, {
    maxRows: MOST_ROWS,
    maxSequences: MOST_ROWS,
    contextLength: context,
    kvBudgetBytes: 64 * 2 ** 20,
    maxKvBlocks: (MOST_ROWS * context) / BLOCK_TOKENS,
  });
  return { runner, tokens, grammars };
}

/** All cases take turns, so that whoever disturbs this machine disturbs them alike. */
async function measure({ request }: Setting, subject: Subject): Promise<BenchRow[]> {
  const vocabulary = subject.runner.limits.vocabSize;
  const measured = CASES.map((): Speeds[] => []);
  for (let round = 0; round < (request.quick ? 3 : 5); round++) {
    for (const [i, one] of CASES.entries()) {
      const speeds = await speedsOf(subject, one, request.quick ? 700 : 1_500);
      measured[i]!.push(speeds);
    }
  }
  const of = (i: number, kind: keyof Speeds) => median(measured[i]!.map((speeds) => speeds[kind]));
  return CASES.map(({ name, free, constrained, barred }, i) => {
    const alone = of(
      CASES.findIndex((other) => other.constrained === 0 && other.free === free + constrained),
      'free',
    );
    const [freeSpeed, constrainedSpeed] = [of(i, 'free'), of(i, 'constrained')];
    const share = barred === undefined ? undefined : (barred === 'free' ? freeSpeed : constrainedSpeed) / alone;
    const least = barred === 'free' ? LEAST_KEPT : LEAST_SHARE;
    return {
      cells: [
        String(vocabulary),
        name,
        fixed(freeSpeed, 1),
        fixed(constrainedSpeed, 1),
        fixed(alone, 1),
        share === undefined ? '' : percent(share),
      ],
      holds: share === undefined ? undefined : share >= least,
      bar: share === undefined ? '' : `${barred === 'free' ? 'free rows ' : ''}≥ ${percent(least)}`,
      data: { vocabulary, free, constrained, freeSpeed, constrainedSpeed, alone, share },
    };
  });
}

async function speedsOf(
  { runner, tokens, grammars }: Subject,
  { free, constrained }: Case,
  ms: number,
): Promise<Speeds> {
  const { contextLength, vocabSize } = runner.limits;
  const warmUp = WARM_UP_TOKENS[vocabSize]!;
  const bench = new BenchEngine(runner, tokens, { maxRunning: MOST_ROWS, prefixCache: false }, grammars);
  // Prompts of one token, so that every row decodes from the start.
  const submit = (count: number, from: number, constraint?: Constraint) =>
    Array.from({ length: count }, (_, i) => bench.submit([from + i], contextLength - 1, constraint).job);
  const constrainedJobs = submit(constrained, 100, ENDLESS);
  const freeJobs = submit(free, 200);
  const jobs = [...constrainedJobs, ...freeJobs];
  const ended = Promise.all(jobs.map((job) => job.ended)).then(() => {
    throw new Error('rows ended before they were measured');
  });
  const reached = (count: number) => () => jobs.every(({ times }) => times.length >= count);
  await Promise.race([ended, bench.until(reached(warmUp))]);
  const from = performance.now();
  const full = () => jobs.some(({ times }) => times.length > contextLength - 32);
  const enough = () => full() || (reached(warmUp + LEAST_TOKENS)() && performance.now() - from > ms);
  await Promise.race([ended, bench.until(enough)]);
  await bench.stop();
  return { free: speed(freeJobs, from), constrained: speed(constrainedJobs, from) };
}

/** Tokens a second of a row since `from`: of several that came at once, those before are left out. */
function speed(jobs: readonly Job[], from: number): number {
  const rates = jobs.map(({ times }) => {
    const since = times.filter((time) => time >= from);
    const [first, last] = [since[0]!, since.at(-1)!];
    return (1_000 * since.filter((time) => time > first).length) / (last - first);
  });
  return rates.length === 0 ? Number.NaN : rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
}
