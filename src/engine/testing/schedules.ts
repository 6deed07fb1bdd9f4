import fc from 'fast-check';
import { expect } from 'vitest';
import type { Runner } from '../../model/runner.ts';
import { tinyModel } from '../../model/testing/tiny-model.ts';
import type { EngineLimits } from '../engine-options.ts';
import type { EngineRequest } from '../request.ts';
import { checkBlocks } from './check-blocks.ts';
import { GatedRunner } from './gated-runner.ts';
import { letterTokens, request, type SampleResult, Served } from './serve.ts';

const VOCAB = 40;
export const CONTEXT = 96;
export const TINY = tinyModel(7, { vocabSize: VOCAB, contextLength: CONTEXT });
export const TINY_TOKENS = letterTokens(VOCAB);
/** Blocks of the runner; a schedule may use fewer. */
export const MOST_BLOCKS = 24;
export const RUNNER_OPTIONS = { kvBlocks: MOST_BLOCKS, maxRows: 20, maxSequences: 6, maxTopLogprobs: 5 };
export const LIMITS: EngineLimits = {
  maxRunning: 6,
  maxWaiting: 200,
  prefillRows: 12,
  stepsInFlight: 2,
  policy: 'lpm',
  prefixCache: true,
};

const anyPrompt = fc
  .record({
    // Prompts that often begin alike, and part anywhere.
    book: fc.nat(2),
    length: fc.nat(45),
    own: fc.array(fc.nat(VOCAB - 1), { minLength: 1, maxLength: 8 }),
  })
  .map(({ book, length, own }) => [...Array.from({ length }, (_, i) => (i * (7 + book) + book) % VOCAB), ...own]);

const anyRequest = fc
  .record({
    prompt: anyPrompt,
    maxNewTokens: fc.nat(40),
    temperature: fc.constantFrom(0, 0, 0.8, 1.5),
    seed: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    n: fc.integer({ min: 1, max: 3 }),
    stopTokenIds: fc.array(fc.nat(VOCAB - 1), { maxLength: 1 }),
    stopStrings: fc.array(fc.stringMatching(/^[a-h]{1,2}$/), { maxLength: 2 }),
    credit: fc.integer({ min: 1, max: 30 }),
    priority: fc.nat(2),
    topLogprobs: fc.constantFrom(0, 0, 0, 2),
  })
  .map(({ prompt, temperature, seed, n, credit, topLogprobs, ...rest }) => ({
    ...rest,
    inputIds: prompt,
    outputLogprobs: topLogprobs > 0,
    topLogprobs,
    sampling: { temperature, seed, topK: 0, topP: 1, minP: 0 },
    samples: Array.from({ length: n }, (_, index) => ({ index, credit, emittedIds: [] })),
  }));

const anyAct = fc.oneof(
  { weight: 4, arbitrary: fc.record({ submit: anyRequest }) },
  { weight: 5, arbitrary: fc.record({ steps: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 1, arbitrary: fc.record({ abort: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ grant: fc.nat(20), credit: fc.integer({ min: 1, max: 40 }) }) },
  { weight: 1, arbitrary: fc.constant({ flush: true }) },
);

/** Arrivals, aborts, credits, long prompts and small pools, in any order, on a device that stands still in between. */
export const anySchedule = fc.record({
  // Small pools more often than not: there, sequences have to give way.
  blocks: fc.oneof(
    fc.integer({ min: 6, max: 9 }),
    fc.integer({ min: 6, max: 9 }),
    fc.integer({ min: 6, max: MOST_BLOCKS }),
  ),
  acts: fc.array(anyAct, { maxLength: 24 }),
  limits: fc.record({
    policy: fc.constantFrom('lpm' as const, 'fcfs' as const, 'priority' as const),
    stepsInFlight: fc.integer({ min: 1, max: 3 }),
    prefixCache: fc.constantFrom(true, true, true, false),
  }),
});
export type Schedule = typeof anySchedule extends fc.Arbitrary<infer T> ? T : never;

/** What must not depend on who else runs. */
export function outcome({ ids, end }: SampleResult) {
  if (end?.type !== 'finished') return { ids, end: end?.message };
  return { ids, reason: end.reason, matched: end.matched, completionTokens: end.completionTokens };
}
export type Outcome = ReturnType<typeof outcome>;

/** What a sample of a request brings when nothing else runs on `open`'s runner. */
export function outcomesAlone(open: () => Promise<Runner>) {
  const known = new Map<string, Promise<Outcome>>();
  return (asked: EngineRequest, index: number): Promise<Outcome> => {
    const key = JSON.stringify({ ...asked, jobId: 0, samples: index }, (_, value) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    const outcomeOf = known.get(key) ?? compute();
    known.set(key, outcomeOf);
    return outcomeOf;

    async function compute(): Promise<Outcome> {
      const quiet = new Served(await open(), TINY_TOKENS, { ...LIMITS, prefixCache: false, stepsInFlight: 1 });
      quiet.submit({ ...asked, jobId: 1n, samples: [{ index, credit: 1_000_000, emittedIds: [] }] });
      await quiet.until(() => quiet.allEnded());
      return outcome(quiet.result(1n, index));
    }
  };
}

/** How often what the schedules are there for came to pass. */
export interface Reached {
  retractions: number;
  cachedTokens: number;
  repeatedSteps: number;
}

/**
 * Runs a schedule and checks it: every block has one owner after each act, each sample ends with the ids it has
 * alone, aborted ones with a beginning of them, and every block comes back.
 */
export async function runSchedule(
  { blocks, acts, limits }: Schedule,
  open: () => Promise<Runner>,
  alone: (asked: EngineRequest, index: number) => Promise<Outcome>,
  reached: Reached,
): Promise<void> {
  const gated = new GatedRunner(await open(), { blocks });
  const busy = new Served(gated, TINY_TOKENS, { ...LIMITS, ...limits });
  const { engine } = busy;
  const submitted: EngineRequest[] = [];
  const aborted = new Set<bigint>();
  for (const act of acts) {
    const picked = (n: number) => submitted[n % Math.max(1, submitted.length)];
    if ('submit' in act) {
      const asked = request(BigInt(submitted.length + 1), act.submit.inputIds, act.submit);
      submitted.push(asked);
      busy.submit(asked);
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
    const load = engine.load();
    expect(load.running).toBeLessThanOrEqual(LIMITS.maxRunning);
    expect(load.usedTokens).toBeLessThanOrEqual(load.maxTokens);
  }
  for (const { jobId, samples } of submitted) {
    for (const { index, credit } of samples) {
      const { ids, end } = busy.result(jobId, index);
      // Nothing past the credit: only an act of `grant` raises it.
      if (!acts.some((act) => 'grant' in act)) expect(ids.length).toBeLessThanOrEqual(credit);
      if (end === undefined) engine.grant(jobId, index, 1_000);
    }
  }
  await gated.openForGood();
  await busy.until(() => busy.allEnded());
  for (const asked of submitted) {
    for (const { index } of asked.samples) {
      const result = busy.result(asked.jobId, index);
      const expected = await alone(asked, index);
      if (result.end?.type === 'finished') reached.cachedTokens += result.end.cachedTokens;
      if (result.end?.type === 'finished' && result.end.reason === 'abort') {
        expect(aborted.has(asked.jobId)).toBe(true);
        expect(result.ids).toEqual(expected.ids.slice(0, result.ids.length));
      } else {
        expect(outcome(result)).toEqual(expected);
      }
    }
  }
  checkBlocks(engine.scheduler);
  expect(engine.idle).toBe(true);
  expect(engine.load()).toMatchObject({ running: 0, waiting: 0, usedTokens: 0 });
  expect(engine.abort(1n)).toBe(false);
  reached.retractions += engine.scheduler.retractions;
  reached.repeatedSteps += gated.repeatedSteps;
}
