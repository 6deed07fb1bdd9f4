import { parseModelConfig } from '../../src/checkpoint/model-config.ts';
import { loadDecoder } from '../../src/model/load-decoder.ts';
import {
  BLOCK_TOKENS,
  type LogitsRow,
  type Runner,
  type SamplingParams,
  type StepBatch,
} from '../../src/model/runner.ts';
import { randomCheckpoint } from './random-checkpoint.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import type { Setting } from './setting.ts';
import { median, middleMean, percentile } from './stats.ts';

const VOCABULARIES = [512, 49_152, 151_936] as const;
const BATCHES = [1, 8] as const;
const LEAST_SHARE = 0.9;
const CONTEXT = 64;
/** Decode steps of one submit, of one row and of eight: fewer where a step is long, as many as a turn takes 30 ms at least. */
const REPEATS: Readonly<Record<number, readonly [number, number]>> = { 512: [16, 16], 49152: [8, 4], 151936: [8, 2] };
/** Turns of each case. */
const ROUNDS: Readonly<Record<number, number>> = { 512: 16, 49152: 12, 151936: 8 };
const GREEDY: SamplingParams = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 1n, sampleIndex: 0 };

interface Case {
  readonly name: string;
  /** How row `i` is sampled. */
  readonly sampling: (i: number) => Partial<SamplingParams>;
  readonly penalties?: boolean;
  readonly topLogprobs?: number;
}

/**
 * At temperature 1 the random weights' logits are normal with a deviation of about 1, so that thousands of tokens
 * matter; at 0.1 a few do, as with a trained model; at 1,000 all are alike.
 */
const CASES: readonly Case[] = [
  { name: 'temperature 1', sampling: () => ({ temperature: 1 }) },
  { name: 'temperature 0.1', sampling: () => ({ temperature: 0.1 }) },
  { name: 'top p 0.9', sampling: () => ({ temperature: 1, topP: 0.9 }) },
  { name: 'top p 0.9, temperature 0.1', sampling: () => ({ temperature: 0.1, topP: 0.9 }) },
  {
    name: 'top k 40, top p 0.9, penalties',
    sampling: () => ({ temperature: 1, topK: 40, topP: 0.9 }),
    penalties: true,
  },
  {
    name: 'mixed rows',
    sampling: (i) =>
      [
        { temperature: 1, topK: 40 },
        {},
        { temperature: 0.7, topP: 0.9 },
        { temperature: 1 },
        { temperature: 1.2, minP: 0.05 },
      ][i % 5]!,
  },
  { name: 'flat, top p 0.95', sampling: () => ({ temperature: 1_000, topP: 0.95 }) },
  { name: 'greedy, top logprobs 20', sampling: () => ({}), topLogprobs: 20 },
];

/** Sampled decode against greedy decode of the same steps, over the layers of the bundled model and random heads. */
export async function samplingTable(setting: Setting): Promise<BenchTable> {
  const rows: BenchRow[] = [];
  const { vocabularies = VOCABULARIES, batches = BATCHES, lines = [''] } = setting.request.only ?? {};
  const cases = CASES.filter(({ name }) => lines.some((text) => name.includes(text)));
  for (const vocabulary of VOCABULARIES.filter((one) => vocabularies.includes(one))) {
    const runner = await openRunner(setting, vocabulary);
    try {
      for (const batch of BATCHES.filter((one) => batches.includes(one))) {
        rows.push(...(await measure(setting, runner, batch, cases)));
      }
    } finally {
      runner.destroy();
    }
  }
  return {
    name: 'sampling',
    title: 'Sampled decode against greedy decode (runner; layers of the bundled model, random weights)',
    columns: ['vocabulary', 'batch', 'rows', 'ms a step', 'greedy', 'of its speed', 'quarter below', 'above'],
    rows,
  };
}

function openRunner({ device, model }: Setting, vocabulary: number): Promise<Runner> {
  const text = JSON.stringify({ ...model.config.raw, vocab_size: vocabulary });
  const config = parseModelConfig(text, `${model.name} with ${vocabulary} ids`);
  return loadDecoder(device, randomCheckpoint(model.name, config, 'F32'), config, {
    maxRows: 8,
    maxSequences: 8,
    maxTopLogprobs: 20,
    contextLength: CONTEXT,
    kvBudgetBytes: 64 * 2 ** 20,
    maxKvBlocks: (8 * CONTEXT) / BLOCK_TOKENS,
  });
}

/**
 * Every case has its turn between two greedy ones, so that whoever disturbs this machine disturbs them alike. What counts is
 * a turn's speed against these two, averaged over the middle half of the turns: a disturbance makes some of them too fast
 * and some too slow, and what few draws take longer is counted.
 */
async function measure(
  { request }: Setting,
  runner: Runner,
  batch: number,
  cases: readonly Case[],
): Promise<BenchRow[]> {
  const { vocabSize } = runner.limits;
  const turns = cases.map((): Turn[] => []);
  const rounds = request.quick ? Math.ceil(ROUNDS[vocabSize]! / 2) : ROUNDS[vocabSize]!;
  const repeatOf = (one: Case) => (one.topLogprobs === undefined ? REPEATS[vocabSize]![batch === 1 ? 0 : 1] : 1);
  for (let round = -1; round < rounds; round++) {
    let before: { readonly repeat: number; readonly ms: number } | undefined;
    for (const [i, one] of cases.entries()) {
      // Steps with top logprobs aren't repeated.
      const repeat = repeatOf(one);
      const greedy = async () => ({ repeat, ms: await stepMs(runner, batch, repeat, round) });
      const first = before?.repeat === repeat ? before : await greedy();
      const ms = await stepMs(runner, batch, repeat, round, one);
      before = await greedy();
      if (round >= 0) turns[i]!.push({ ms, greedyMs: (first.ms + before.ms) / 2 });
    }
  }
  return cases.map((one, i) => {
    const shares = turns[i]!.map(({ ms, greedyMs }) => greedyMs / ms);
    const share = middleMean(shares);
    const ms = median(turns[i]!.map((turn) => turn.ms));
    const greedyMs = median(turns[i]!.map((turn) => turn.greedyMs));
    const [below, above] = [percentile(shares, 0.25), percentile(shares, 0.75)];
    const barred = one.topLogprobs === undefined;
    return {
      cells: [
        String(vocabSize),
        String(batch),
        one.name,
        fixed(ms),
        fixed(greedyMs),
        ...[share, below, above].map(percent),
      ],
      holds: barred ? share >= LEAST_SHARE : undefined,
      bar: barred ? `≥ ${percent(LEAST_SHARE)}` : '',
      data: { vocabulary: vocabSize, batch, ms, greedyMs, share, below, above },
    };
  });
}

interface Turn {
  readonly ms: number;
  readonly greedyMs: number;
}

/** Each round draws with other seeds. */
async function stepMs(runner: Runner, batch: number, repeat: number, round: number, one?: Case): Promise<number> {
  const step = decodeStep(batch, repeat, round, one);
  const startedAt = performance.now();
  await runner.step(step);
  return (performance.now() - startedAt) / repeat;
}

function decodeStep(batch: number, repeat: number, round: number, one?: Case): StepBatch {
  const blocks = CONTEXT / BLOCK_TOKENS;
  const rows = Array.from({ length: batch }, (_, i) => i);
  const logits = rows.map(
    (row): LogitsRow => ({
      row,
      slot: row,
      sampling: { ...GREEDY, seed: BigInt(round + 2), sampleIndex: row, ...one?.sampling(row) },
      outputPosition: 0,
      logprob: one?.topLogprobs !== undefined,
      topLogprobs: one?.topLogprobs ?? 0,
    }),
  );
  return {
    sequences: rows.map((row) => ({
      slot: row,
      tokens: [row + 3],
      startPosition: 0,
      blockTable: Array.from({ length: blocks }, (_, b) => row * blocks + b),
    })),
    logits,
    starts: rows.map((slot) => ({
      slot,
      outputIds: Array.from({ length: 32 }, (_, i) => 7 * i + slot),
      frequencyPenalty: one?.penalties ? 0.5 : 0,
      presencePenalty: one?.penalties ? 0.5 : 0,
      repetitionPenalty: one?.penalties ? 1.1 : 1,
      stopIds: [],
      minNewTokens: 0,
      biases: [],
      logprobIds: [],
    })),
    repeat,
  };
}
