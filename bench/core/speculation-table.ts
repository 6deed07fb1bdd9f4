import { parseModelConfig } from '../../src/checkpoint/model-config.ts';
import type { EngineOptions } from '../../src/engine/engine-options.ts';
import { GivenDrafts } from '../../src/engine/testing/given-drafts.ts';
import { loadDecoder } from '../../src/model/load-decoder.ts';
import { BLOCK_TOKENS, MAX_DRAFT, type Runner } from '../../src/model/runner.ts';
import { BenchEngine } from './bench-engine.ts';
import { copyingCheckpoint, idAfter, temperatureFor } from './copying-checkpoint.ts';
import { type BenchRow, type BenchTable, fixed, percent } from './report.ts';
import type { Setting } from './setting.ts';
import { median, percentile } from './stats.ts';

const BATCHES = [1, 8] as const;
const CYCLE = 128;
const OUTPUT = 128;
/** Ids of each draft where every step has drafts, whatever they take. */
const ALWAYS = 4;
const CONTEXT = CYCLE + OUTPUT + BLOCK_TOKENS;
/** Tokens a step, and speed, that prompts to be copied have to give; and the speed that no other may fall below. */
const LEAST_TOKENS = 1.5;
const LEAST_GAIN = 1.5;
const LEAST_SPEED = 0.95;
/** "Once upon a time". */
const STORY = [1, 403, 407, 261, 378];
const STORY_TEMPERATURE = 0.8;
/** A pair of turns doesn't count where other processes had more of their time, as long as there are others to come. */
const MOST_DISTURBED = 0.1;

interface Case {
  readonly name: string;
  /** The bundled model as it is, where it is the one that is measured; else one that keeps to a round of ids. */
  readonly story: boolean;
  /** What is copied is in the prompt. */
  readonly copies: boolean;
  readonly temperature: number;
  readonly prompt: (row: number) => readonly number[];
}

interface Turn {
  readonly ms: number;
  readonly tokensPerStep: number;
  /** Share of its time that other processes ran on this machine's cores; 0 where that isn't known. */
  readonly disturbed: number;
}

/**
 * N-gram drafts on and off, in pairs of turns of two engines that stay as they are, so that what one learned of the adapter it knows in
 * its next turn, as a page does. A turn counts while all its rows decode. `always`: what the same drafts bring where every step has
 * them.
 */
export async function speculationTable(setting: Setting): Promise<BenchTable> {
  const { device, model, request } = setting;
  const text = JSON.stringify({ ...model.config.raw, tie_word_embeddings: false });
  const config = parseModelConfig(text, `${model.name} that copies`);
  const copying = await loadDecoder(device, copyingCheckpoint(model.name, config, CYCLE), config, {
    maxRows: 256,
    maxSequences: 8,
    maxTopLogprobs: 0,
    contextLength: CONTEXT,
    kvBudgetBytes: 256 * 2 ** 20,
    maxKvBlocks: 8 * Math.ceil(CONTEXT / BLOCK_TOKENS),
  });
  try {
    const { batches = BATCHES, lines = [''] } = request.only ?? {};
    const cases = casesOf(setting).filter(({ name }) => lines.some((line) => name.includes(line)));
    const rows: BenchRow[] = [];
    for (const batch of BATCHES.filter((one) => batches.includes(one))) {
      for (const one of cases) rows.push(await measure(setting, one.story ? setting.runner : copying, batch, one));
    }
    return {
      name: 'speculation',
      title: `Drafts by n-grams against none (engine; outputs of ${OUTPUT}; drafts of up to ${MAX_DRAFT}; speed: median of pairs, and their quartiles)`,
      columns: [
        'batch',
        'output',
        'tokens/s',
        'without',
        '× speed',
        'of the pairs',
        'tokens a step',
        'always',
        'accepted',
        'of roofline',
      ],
      rows,
    };
  } finally {
    copying.destroy();
  }
}

function casesOf({ model, request }: Setting): Case[] {
  const { hiddenSize, vocabSize } = model.llama;
  const sampled = (kept: number) => temperatureFor(kept, hiddenSize, vocabSize);
  /** The whole round from some id on; or one id of it, from which on nothing comes twice. */
  const round = (row: number) => Array.from({ length: CYCLE }, (_, i) => idAfter(row * 29 + i, CYCLE));
  const one = (row: number) => round(row).slice(0, 1);
  const story = () => STORY;
  const cases = [
    { name: 'copy, greedy', story: false, copies: true, temperature: 0, prompt: round },
    { name: 'copy, sampled', story: false, copies: true, temperature: sampled(0.99), prompt: round },
    { name: 'nothing repeats', story: false, copies: false, temperature: 0, prompt: one },
    { name: 'repeats mislead, sampled', story: false, copies: false, temperature: sampled(0.3), prompt: round },
    { name: 'at random', story: false, copies: false, temperature: 50, prompt: round },
    { name: 'story, greedy', story: true, copies: false, temperature: 0, prompt: story },
    { name: 'story, sampled', story: true, copies: false, temperature: STORY_TEMPERATURE, prompt: story },
  ];
  return cases.filter((each) => !each.story || request.model.folder !== undefined);
}

async function measure(setting: Setting, runner: Runner, batch: number, one: Case): Promise<BenchRow> {
  const { request, software, work, model } = setting;
  const engine = (speculation: EngineOptions['speculation']) =>
    new BenchEngine(runner, model.tokens, { prefixCache: false }, undefined, speculation);
  const [without, drafting, always] = [engine('off'), engine('auto'), engine(new GivenDrafts(undefined, () => ALWAYS))];
  // The first of each finds out what its steps take.
  await pair(setting, without, drafting, batch, one, 0);
  const wanted = (request.quick ? 10 : 20) / (batch > 1 ? 2 : 1);
  const pairs: Pair[] = [];
  let disturbed = 0;
  while (pairs.length < wanted) {
    const took = await pair(setting, without, drafting, batch, one, pairs.length + 1 + disturbed);
    if (disturbed < wanted && Math.max(took.plain.disturbed, took.drafted.disturbed) > MOST_DISTURBED) disturbed++;
    else pairs.push(took);
  }
  const { accepted = 0, drafted: guesses = 0 } = drafting.engine.load().speculation ?? {};
  const forced = await turn(setting, always, batch, one, 0);
  const ms = median(pairs.map(({ drafted }) => drafted.ms));
  const plainMs = median(pairs.map(({ plain }) => plain.ms));
  // Of each pair by itself: what disturbs both says nothing.
  const speeds = pairs.map(({ plain, drafted }) => plain.ms / drafted.ms);
  const speed = median(speeds);
  const [low, high] = [percentile(speeds, 0.25), percentile(speeds, 0.75)];
  const tokensPerStep = median(pairs.map(({ drafted }) => drafted.tokensPerStep));
  // What plain steps would take at least: above 1, drafts beat any that have one row a token.
  const keys = batch * (one.prompt(0).length + OUTPUT / 2);
  const share = work.share({ rows: batch, logitsRows: batch, keys, steps: 1 }, ms * batch);
  // A software adapter pays for every row: there it is told what drafts bring, and held is that they harm nobody.
  const least = one.copies && !software ? LEAST_GAIN : LEAST_SPEED;
  const holds = speed >= least && (!one.copies || forced.tokensPerStep >= LEAST_TOKENS);
  return {
    cells: [
      String(batch),
      one.name,
      fixed(1000 / ms, 0),
      fixed(1000 / plainMs, 0),
      fixed(speed),
      `${fixed(low)}–${fixed(high)}`,
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
      low,
      high,
      disturbed,
      tokensPerStep,
      alwaysTokensPerStep: forced.tokensPerStep,
      accepted,
      guesses,
      share,
    },
  };
}

interface Pair {
  readonly plain: Turn;
  readonly drafted: Turn;
}

/** One turn without drafts and one with them, the second first in every other pair. */
async function pair(
  setting: Setting,
  without: BenchEngine,
  drafting: BenchEngine,
  batch: number,
  one: Case,
  round: number,
): Promise<Pair> {
  const first = await turn(setting, round % 2 === 0 ? without : drafting, batch, one, round);
  const second = await turn(setting, round % 2 === 0 ? drafting : without, batch, one, round);
  return round % 2 === 0 ? { plain: first, drafted: second } : { plain: second, drafted: first };
}

/**
 * One request for each row of the batch: milliseconds a token, and tokens a step and row, from where all decode to where the
 * first ends. Prompts come before, when none of them may go on: else those that are done would decode beside the others' prompts, one
 * after the other.
 */
async function turn(setting: Setting, bench: BenchEngine, batch: number, one: Case, round: number): Promise<Turn> {
  const { temperature } = one;
  const submitted = Array.from({ length: batch }, (_, row) => {
    const sampling = { temperature, seed: BigInt(round * batch + row + 1) };
    return bench.submit(one.prompt(row), OUTPUT, undefined, undefined, { sampling, credit: 1 });
  });
  const jobs = submitted.map(({ job }) => job);
  await Promise.all(jobs.map((job) => job.began));
  await bench.quiet();
  // A pause of tens of milliseconds, in one turn of two or three: it would be some turn's, not its engine's.
  setting.collectGarbage?.();
  const firstStep = bench.steps.length;
  const [startedAt, others] = [performance.now(), setting.othersMs?.() ?? 0];
  for (const { jobId } of submitted) bench.engine.grant(jobId, 0, OUTPUT);
  await Promise.race(jobs.map((job) => job.ended));
  const disturbed = ((setting.othersMs?.() ?? 0) - others) / (performance.now() - startedAt);
  const steps = bench.steps.slice(firstStep).filter(({ decodeRows }) => decodeRows === batch);
  await bench.stop();
  const from = Math.max(...jobs.map(({ times }) => times[1]!));
  const until = Math.min(...jobs.filter(({ times }) => times.length === OUTPUT).map(({ times }) => times.at(-1)!));
  const counted = jobs.flatMap(({ times }) => times.filter((at) => at > from && at <= until)).length;
  const rows = steps.reduce((sum, step) => sum + step.decodeRows * step.steps, 0);
  const tokens = steps.reduce((sum, step) => sum + step.tokens, 0);
  return { ms: (until - from) / counted, tokensPerStep: tokens / rows, disturbed };
}
