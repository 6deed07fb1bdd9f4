import fc from 'fast-check';
import { expect } from 'vitest';
import { CpuRunner } from '../../model/cpu-runner.ts';
import { MAX_DRAFT, type Runner } from '../../model/runner.ts';
import { MAX_REPEAT } from '../../model/step-metadata.ts';
import type { EngineLimits } from '../engine-options.ts';
import type { Grammars } from '../grammars.ts';
import type { LoraFiles } from '../lora-adapters.ts';
import type { Constraint, EngineRequest, RequestedSample } from '../request.ts';
import type { Speculating } from '../speculation.ts';
import {
  type AskedRequest,
  anyIdConstraint,
  anyRequest,
  MOST_TOP,
  requestOf,
  STOP_IDS,
  TINY_TOKENS,
  VOCAB,
} from './any-request.ts';
import { checkBlocks } from './check-blocks.ts';
import { CountedGrammars } from './counted-grammars.ts';
import { GatedRunner, turn } from './gated-runner.ts';
import { IdGrammars } from './id-grammars.ts';
import { cutLike, type Outcome, outcome, takenOver } from './outcome.ts';
import { type SampleResult, Served } from './serve.ts';
import { checkWindows, spoilFree } from './watch-windows.ts';

/** Blocks of the runner; a schedule may use fewer. */
export const MOST_BLOCKS = 24;
export const RUNNER_OPTIONS = { kvBlocks: MOST_BLOCKS, maxRows: 20, maxSequences: 6, maxTopLogprobs: MOST_TOP };
export const LIMITS: EngineLimits = {
  maxRunning: 6,
  maxWaiting: 200,
  prefillRows: 12,
  stepsInFlight: 2,
  policy: 'lpm',
  prefixCache: true,
};

/** Positions that a sequence goes on by in one step. */
const MOST_CHUNK = Math.max(LIMITS.prefillRows, MAX_REPEAT, MAX_DRAFT + 1);

const anySubmit = (...asked: Parameters<typeof anyRequest>) => fc.record({ submit: anyRequest(...asked) });

const anyAct = (submit: ReturnType<typeof anySubmit>) =>
  fc.oneof(
    { weight: 4, arbitrary: submit },
    { weight: 5, arbitrary: fc.record({ steps: fc.integer({ min: 1, max: 12 }) }) },
    { weight: 1, arbitrary: fc.record({ abort: fc.nat(20) }) },
    { weight: 2, arbitrary: fc.record({ grant: fc.nat(20), credit: fc.integer({ min: 1, max: 40 }) }) },
    { weight: 1, arbitrary: fc.constant({ flush: true }) },
  );

/** A few that come at once, and then anything. */
function anyActs(submit: ReturnType<typeof anySubmit>) {
  const first = fc.array(submit, { maxLength: 4 });
  return fc.tuple(first, fc.array(anyAct(submit), { maxLength: 22 })).map(([some, rest]) => [...some, ...rest]);
}

/**
 * Arrivals, aborts, credits, long prompts and small pools, in any order, on a device that stands still in between.
 * `constrained` of `constrained` + 4 requests have a constraint, some name one of `adapters`.
 */
export const anySchedule = (
  anyConstraint: fc.Arbitrary<Constraint> = anyIdConstraint,
  constrained = 1,
  adapters: readonly string[] = [],
) =>
  fc.record({
    // Small pools more often than not: there, sequences have to give way.
    blocks: fc.oneof(
      { weight: 3, arbitrary: fc.integer({ min: 6, max: 7 }) },
      { weight: 1, arbitrary: fc.integer({ min: 6, max: MOST_BLOCKS }) },
    ),
    windowBlocks: fc.integer({ min: 3, max: 18 }),
    acts: anyActs(anySubmit(anyConstraint, constrained, adapters)),
    limits: fc.record({
      policy: fc.constantFrom('lpm' as const, 'fcfs' as const, 'priority' as const),
      stepsInFlight: fc.integer({ min: 1, max: 3 }),
      prefixCache: fc.constantFrom(true, true, true, false),
    }),
    /** Of the runner: often too few for all rows of a step. */
    most: fc.record({
      maxLogitsRows: fc.integer({ min: LIMITS.maxRunning, max: RUNNER_OPTIONS.maxRows }),
      maxTop: fc.integer({ min: MOST_TOP, max: 20 }),
      maxHiddenRows: fc.integer({ min: 1, max: 6 }),
    }),
    /** Turns that each answer of a matcher takes, and how long a step waits for it. */
    delays: fc.array(fc.constantFrom(0, 0, 0, 1, 2, 4), { minLength: 1, maxLength: 6 }),
    maskPatienceMs: fc.constantFrom(0, 1, 20, 1_000),
  });
export type Schedule = ReturnType<typeof anySchedule> extends fc.Arbitrary<infer T> ? T : never;

/** What meets the constraints of schedules, unless a test brings other ones. */
export const ID_GRAMMARS = new IdGrammars(VOCAB, STOP_IDS);

/** How often what the schedules are there for came to pass. */
export interface Reached {
  retractions: number;
  cachedTokens: number;
  repeatedSteps: number;
  scoringSteps: number;
  maskedSteps: number;
  draftedSteps: number;
  maskedDrafts: number;
  /** Samples that ended with something told of each kind, a constraint met, or an adapter. */
  prompts: number;
  hiddenStates: number;
  constrained: number;
  adapted: number;
  takenOver: number;
}

export function nothingReached(): Reached {
  return {
    retractions: 0,
    cachedTokens: 0,
    repeatedSteps: 0,
    scoringSteps: 0,
    maskedSteps: 0,
    draftedSteps: 0,
    maskedDrafts: 0,
    prompts: 0,
    hiddenStates: 0,
    constrained: 0,
    adapted: 0,
    takenOver: 0,
  };
}

/** What a sample of a request brings when nothing else runs. */
export type Alone = (asked: EngineRequest, index: number) => Promise<Outcome>;

/** A request with the first tokens of its samples made elsewhere; the prompt's logprobs were told there too then. */
async function partlyMade(asked: EngineRequest, emitted: number, alone: Alone): Promise<EngineRequest> {
  if (emitted === 0) return asked;
  const samples: RequestedSample[] = [];
  // One after the other: each alone on the runner.
  for (const { index, credit } of asked.samples) {
    const { ids } = await alone(asked, index);
    const emittedIds = ids.slice(0, Math.max(0, Math.min(emitted, ids.length - 1)));
    samples.push({ index, credit: Math.max(credit, emittedIds.length), emittedIds });
  }
  const told = samples[0]!.emittedIds.length > 0;
  return { ...asked, samples, logprobStart: told ? undefined : asked.logprobStart };
}

/**
 * Runs a schedule and checks it: every block has one owner after each act, each sample ends with the ids, and with what
 * is told of them, that it has alone, aborted ones with a beginning of it, and every block and matcher comes back. `drafts`: who
 * drafts, once what the requests are is known; `adapters`: what requests may name.
 */
export async function runSchedule(
  { blocks, windowBlocks, acts, limits, most, delays, maskPatienceMs }: Schedule,
  open: () => Promise<Runner>,
  alone: Alone,
  reached: Reached,
  inner: Grammars = ID_GRAMMARS,
  drafts: (jobs: readonly EngineRequest[]) => Promise<Speculating | undefined> = async () => undefined,
  adapters: readonly LoraFiles[] = [],
): Promise<void> {
  // Before anything else runs: what is alone may run on the same runner.
  const jobs: EngineRequest[] = [];
  for (const act of acts) {
    if (!('submit' in act)) continue;
    jobs.push(await partlyMade(requestOf(BigInt(jobs.length + 1), act.submit), act.submit.emitted, alone));
  }
  const speculation = (await drafts(jobs)) ?? 'off';
  const runner = await open();
  const gated = new GatedRunner(runner, { blocks, windowBlocks, ...most });
  let answers = 0;
  const grammars = new CountedGrammars(inner, async () => {
    for (let turns = delays[answers++ % delays.length]!; turns > 0; turns--) await turn();
  });
  const busy = new Served(gated, TINY_TOKENS, { ...LIMITS, ...limits }, { grammars, maskPatienceMs, speculation });
  const { engine } = busy;
  for (const adapter of adapters) await engine.lora.load(adapter);
  gated.beforeStep = (batch) => {
    checkWindows(engine.scheduler, MOST_CHUNK);
    if (runner instanceof CpuRunner) spoilFree(engine.scheduler, runner, batch);
  };
  const submitted: { asked: AskedRequest; job: EngineRequest }[] = [];
  const aborted = new Set<bigint>();
  for (const act of acts) {
    const picked = (n: number) => submitted[n % Math.max(1, submitted.length)]?.job;
    if ('submit' in act) {
      const job = jobs[submitted.length]!;
      submitted.push({ asked: act.submit, job });
      busy.submit(job);
    } else if ('steps' in act) {
      await gated.release(act.steps);
    } else if ('abort' in act) {
      const job = picked(act.abort);
      if (!job) continue;
      const running = job.samples.some(({ index }) => busy.result(job.jobId, index).end === undefined);
      expect(engine.abort(job.jobId)).toBe(running);
      expect(engine.abort(job.jobId)).toBe(false);
      if (running) aborted.add(job.jobId);
    } else if ('grant' in act) {
      const job = picked(act.grant);
      for (const { index } of job?.samples ?? []) engine.grant(job!.jobId, index, act.credit);
    } else {
      const cached = engine.load().cachedTokens;
      expect(engine.flushCache()).toBe(cached - engine.load().cachedTokens);
    }
    checkBlocks(engine.scheduler);
    checkWindows(engine.scheduler, MOST_CHUNK);
    const load = engine.load();
    expect(load.running).toBeLessThanOrEqual(LIMITS.maxRunning);
    expect(load.usedTokens).toBeLessThanOrEqual(load.maxTokens);
  }
  for (const { job } of submitted) {
    for (const { index, credit } of job.samples) {
      const { ids, end } = busy.result(job.jobId, index);
      // Nothing past the credit: only an act of `grant` raises it.
      if (!acts.some((act) => 'grant' in act)) expect(ids.length).toBeLessThanOrEqual(credit);
      if (end === undefined) engine.grant(job.jobId, index, 1_000);
    }
  }
  await gated.openForGood();
  await busy.until(() => busy.allEnded());
  await gated.quiet();
  for (const { asked, job } of submitted) {
    for (const { index, emittedIds } of job.samples) {
      const result = busy.result(job.jobId, index);
      const whole = requestOf(job.jobId, asked);
      const expected = takenOver(await alone(whole, index), emittedIds.length);
      if (result.end?.type === 'finished' && result.end.reason === 'abort') {
        expect(aborted.has(job.jobId)).toBe(true);
        expect(outcome(result)).toMatchObject(cutLike(expected, result));
      } else {
        expect(outcome(result)).toEqual(expected);
      }
      count(reached, job, result);
    }
  }
  checkBlocks(engine.scheduler);
  expect(engine.idle).toBe(true);
  expect(engine.load()).toMatchObject({ running: 0, waiting: 0, usedTokens: 0, waitingUncachedTokens: 0 });
  expect(engine.abort(1n)).toBe(false);
  // One that an aborted sequence had asked for may come only now.
  for (let turns = 0; turns < 1_000 && grammars.opening > 0; turns++) await turn();
  expect(grammars).toMatchObject({ opening: 0, closed: grammars.opened });
  reached.retractions += engine.scheduler.retractions;
  reached.repeatedSteps += gated.repeatedSteps;
  reached.scoringSteps += gated.scoringSteps;
  reached.maskedSteps += gated.maskedSteps;
  reached.draftedSteps += gated.draftedSteps;
  reached.maskedDrafts += gated.maskedDrafts;
}

function count(reached: Reached, job: EngineRequest, { input, output, end }: SampleResult): void {
  if (end?.type !== 'finished') return;
  reached.cachedTokens += end.cachedTokens;
  if (input.logprobs.length > 0) reached.prompts++;
  if (output.hiddenStates.length > 0) reached.hiddenStates++;
  if (job.constraint && end.reason === 'stop') reached.constrained++;
  if (job.loraId !== undefined) reached.adapted++;
  if (job.samples.some(({ emittedIds }) => emittedIds.length > 0)) reached.takenOver++;
}
