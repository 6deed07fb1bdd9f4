import { parseModelConfig } from '../../src/checkpoint/model-config.ts';
import { llamaConfig } from '../../src/model/llama-config.ts';
import { loadLlama } from '../../src/model/load-llama.ts';
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
import { percentile } from './stats.ts';

const VOCABULARIES = [512, 49_152, 151_936] as const;
const BATCHES = [1, 8] as const;
const LEAST_SHARE = 0.9;
const CONTEXT = 64;
/** Decode steps of one submit: fewer where a step is long. */
const REPEATS: Readonly<Record<number, number>> = { 512: 16, 49152: 4, 151936: 2 };
/** Turns of each case, at least. */
const ROUNDS: Readonly<Record<number, number>> = { 512: 8, 49152: 4, 151936: 3 };
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
  for (const vocabulary of VOCABULARIES) {
    const runner = await openRunner(setting, vocabulary);
    try {
      for (const batch of BATCHES) rows.push(...(await measure(setting, runner, batch)));
    } finally {
      runner.destroy();
    }
  }
  return {
    name: 'sampling',
    title: 'Sampled decode against greedy decode (runner; layers of the bundled model, random weights)',
    columns: ['vocabulary', 'batch', 'rows', 'ms a step', 'greedy', 'of its speed'],
    rows,
  };
}

function openRunner({ device, model }: Setting, vocabulary: number): Promise<Runner> {
  const text = JSON.stringify({ ...model.config.raw, vocab_size: vocabulary });
  const config = parseModelConfig(text, `${model.name} with ${vocabulary} ids`);
  return loadLlama(device, randomCheckpoint(model.name, llamaConfig(config), 'F32'), config, {
    maxRows: 8,
    maxSequences: 8,
    maxTopLogprobs: 20,
    contextLength: CONTEXT,
    kvBudgetBytes: 64 * 2 ** 20,
    maxKvBlocks: (8 * CONTEXT) / BLOCK_TOKENS,
  });
}

/**
 * Greedy and every case take turns, greedy before every second case, so that whoever disturbs this machine disturbs them
 * alike. A disturbance only makes turns longer: what counts is the time that a quarter of them keep below.
 */
async function measure({ request }: Setting, runner: Runner, batch: number): Promise<BenchRow[]> {
  const { vocabSize } = runner.limits;
  const repeat = REPEATS[vocabSize]!;
  const greedy: number[] = [];
  const single: number[] = [];
  const sampled = CASES.map((): number[] => []);
  // One row alone draws little in a turn.
  const rounds = ROUNDS[vocabSize]! * (batch === 1 ? 3 : 1) * (request.quick ? 1 : 2);
  for (let round = -1; round < rounds; round++) {
    for (const [i, one] of CASES.entries()) {
      const alone = one.topLogprobs !== undefined;
      const beside = i % 2 === 0 || alone ? await stepMs(runner, batch, alone ? 1 : repeat, round) : undefined;
      const ms = await stepMs(runner, batch, alone ? 1 : repeat, round, one);
      if (round < 0) continue;
      if (beside !== undefined) (alone ? single : greedy).push(beside);
      sampled[i]!.push(ms);
    }
  }
  return CASES.map((one, i) => {
    const base = percentile(one.topLogprobs === undefined ? greedy : single, 0.25);
    const ms = percentile(sampled[i]!, 0.25);
    const share = base / ms;
    const barred = one.topLogprobs === undefined;
    return {
      cells: [String(vocabSize), String(batch), one.name, fixed(ms), fixed(base), percent(share)],
      holds: barred ? share >= LEAST_SHARE : undefined,
      bar: barred ? `≥ ${percent(LEAST_SHARE)}` : '',
      data: { vocabulary: vocabSize, batch, ms, greedyMs: base, share },
    };
  });
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
