import { parseModelConfig } from '../../src/checkpoint/model-config.ts';
import type { EngineOptions } from '../../src/engine/engine-options.ts';
import type { RequestSampling } from '../../src/engine/request.ts';
import { GivenDrafts } from '../../src/engine/testing/given-drafts.ts';
import { loadDecoder } from '../../src/model/load-decoder.ts';
import { BLOCK_TOKENS, MAX_DRAFT, type Runner } from '../../src/model/runner.ts';
import { BenchEngine } from './bench-engine.ts';
import { copyingCheckpoint, idAfter, temperatureFor } from './copying-checkpoint.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import type { Setting } from './setting.ts';
import { median } from './stats.ts';

const BATCHES = [1, 8] as const;
const CYCLE = 256;
const OUTPUT = 128;
/** Ids of each draft where every step has drafts, whatever they take. */
const ALWAYS = 4;
const CONTEXT = CYCLE + OUTPUT + BLOCK_TOKENS;
/** Tokens a step, and speed, that prompts to be copied have to give; and the speed that no other may fall below. */
const LEAST_TOKENS = 1.5;
const LEAST_GAIN = 1.5;
const LEAST_SPEED = 0.95;

interface Case {
  readonly name: string;
  /** Its prompt has what the output repeats. */
  readonly repeats: boolean;
  readonly copies: boolean;
  /** Chance that the output keeps to the round; 1 is greedy. */
  readonly kept: number;
}

const CASES: readonly Case[] = [
  { name: 'copy, greedy', repeats: true, copies: true, kept: 1 },
  { name: 'copy, sampled', repeats: true, copies: true, kept: 0.99 },
  { name: 'nothing repeats', repeats: false, copies: false, kept: 1 },
  { name: 'repeats mislead, sampled', repeats: true, copies: false, kept: 0.3 },
];

interface Turn {
  readonly ms: number;
  readonly tokensPerStep: number;
}

/**
 * N-gram drafts on and off, over a model that keeps to rounds of ids; both engines stay as they are, so that what one learned of the
 * adapter it knows in its next turn, as a page does. `always`: what the same drafts bring where every step has them.
 */
export async function speculationTable(setting: Setting): Promise<BenchTable> {
  const { device, model, request } = setting;
  const text = JSON.stringify({ ...model.config.raw, tie_word_embeddings: false });
  const config = parseModelConfig(text, `${model.name} that copies`);
  const runner = await loadDecoder(device, copyingCheckpoint(model.name, config, CYCLE), config, {
    maxRows: 256,
    maxSequences: 8,
    maxTopLogprobs: 0,
    contextLength: CONTEXT,
    kvBudgetBytes: 256 * 2 ** 20,
    maxKvBlocks: 8 * Math.ceil(CONTEXT / BLOCK_TOKENS),
  });
  try {
    const { batches = BATCHES, lines = [''] } = request.only ?? {};
    const rows: BenchRow[] = [];
    for (const batch of BATCHES.filter((one) => batches.includes(one))) {
      const engines = [
        engineOf(setting, runner, 'off'),
        engineOf(setting, runner, 'auto'),
        engineOf(setting, runner, new GivenDrafts(undefined, () => ALWAYS)),
      ] as const;
      for (const one of CASES.filter(({ name }) => lines.some((line) => name.includes(line)))) {
        rows.push(await measure(setting, engines, batch, one));
      }
    }
    return {
      name: 'speculation',
      title: `Drafts by n-grams against none (engine; prompts of ${CYCLE} ids, outputs of ${OUTPUT}; drafts of up to ${MAX_DRAFT})`,
      columns: [
        'batch',
        'output',
        'ms a token',
        'without',
        '× speed',
        'tokens a step',
        'always',
        'accepted',
        'of roofline',
      ],
      rows,
    };
  } finally {
    runner.destroy();
  }
}

function engineOf({ model }: Setting, runner: Runner, speculation: EngineOptions['speculation']): BenchEngine {
  return new BenchEngine(runner, model.tokens, { prefixCache: false }, undefined, speculation);
}

async function measure(
  setting: Setting,
  [without, drafting, always]: readonly [BenchEngine, BenchEngine, BenchEngine],
  batch: number,
  one: Case,
): Promise<BenchRow> {
  const { request, software, work } = setting;
  const before = drafting.engine.load().speculation;
  const [plain, drafted]: [Turn[], Turn[]] = [[], []];
  const rounds = (request.quick ? 8 : 16) / (batch > 1 ? 2 : 1);
  for (let round = -1; round < rounds; round++) {
    // By turns: who disturbs this machine disturbs now the one, now the other.
    const order = [
      { bench: without, turns: plain },
      { bench: drafting, turns: drafted },
    ];
    for (const { bench, turns } of round % 2 === 0 ? order : order.reverse()) {
      const took = await turn(setting, bench, batch, one, round);
      // The first of each finds out what its steps take.
      if (round >= 0) turns.push(took);
    }
  }
  const counts = drafting.engine.load().speculation;
  const accepted = (counts?.accepted ?? 0) - (before?.accepted ?? 0);
  const guesses = (counts?.drafted ?? 0) - (before?.drafted ?? 0);
  const forced = await turn(setting, always, batch, one, 0);
  const ms = median(drafted.map((each) => each.ms));
  const plainMs = median(plain.map((each) => each.ms));
  // Of each pair by itself: what disturbs both says nothing.
  const speed = median(plain.map((each, i) => each.ms / drafted[i]!.ms));
  const tokensPerStep = median(drafted.map((each) => each.tokensPerStep));
  // What plain steps would take at least: above 1, drafts beat any that have one row a token.
  const share = work.share(
    { rows: batch, logitsRows: batch, keys: batch * (CYCLE + OUTPUT / 2), steps: 1 },
    ms * batch,
  );
  // A software adapter pays for every row: there it is told what drafts bring, and held is that they harm nobody.
  const least = one.copies && !software ? LEAST_GAIN : LEAST_SPEED;
  const holds = speed >= least && (!one.copies || forced.tokensPerStep >= LEAST_TOKENS);
  return {
    cells: [
      String(batch),
      one.name,
      fixed(ms),
      fixed(plainMs),
      fixed(speed),
      fixed(tokensPerStep),
      fixed(forced.tokensPerStep),
      guesses === 0 ? '–' : percent(accepted / guesses),
      percent(share),
    ],
    holds,
    bar: one.copies ? `≥ ${least} ×, ≥ ${LEAST_TOKENS} tokens a step always` : `≥ ${least} ×`,
    data: {
      batch,
      ms,
      plainMs,
      speed,
      tokensPerStep,
      alwaysTokensPerStep: forced.tokensPerStep,
      accepted,
      guesses,
      share,
    },
  };
}

/** One request for each row of the batch, from its first token to its last. */
async function turn(setting: Setting, bench: BenchEngine, batch: number, one: Case, round: number): Promise<Turn> {
  const { hiddenSize, vocabSize } = setting.model.llama;
  const temperature = one.kept === 1 ? 0 : temperatureFor(one.kept, hiddenSize, vocabSize);
  const firstStep = bench.steps.length;
  const jobs = Array.from({ length: batch }, (_, i) => {
    const sampling: Partial<RequestSampling> = { temperature, seed: BigInt(round * batch + i + batch) };
    return bench.submit(prompt(one, i), OUTPUT, undefined, undefined, sampling).job;
  });
  await Promise.all(jobs.map((job) => job.ended));
  const times = jobs.flatMap((job) => job.times);
  const ms = (Math.max(...times) - Math.max(...jobs.map((job) => job.times[0]!))) / (batch * (OUTPUT - 1));
  await bench.stop();
  const steps = bench.steps.slice(firstStep).filter(({ prefillRows }) => prefillRows === 0);
  const rows = steps.reduce((sum, step) => sum + step.decodeRows * step.steps, 0);
  const tokens = steps.reduce((sum, step) => sum + step.tokens, 0);
  return { ms, tokensPerStep: tokens / rows };
}

/** A whole round from some id on, which the output repeats; or one id, from which on nothing comes twice. */
function prompt({ repeats }: Case, i: number): number[] {
  const ids = [(i * 29) % CYCLE];
  while (repeats && ids.length < CYCLE) ids.push(idAfter(ids.at(-1)!, CYCLE));
  return ids;
}
