import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { CpuRunner } from '../model/cpu-runner.ts';
import type { SampledRow, StepBatch } from '../model/runner.ts';
import type { EngineLimits } from './engine-options.ts';
import type { EngineRequest } from './request.ts';
import { CONTEXT, TINY, TINY_TOKENS } from './testing/any-request.ts';
import { GatedRunner, turn } from './testing/gated-runner.ts';
import { outcomesAlone } from './testing/outcome.ts';
import { anySchedule, ID_GRAMMARS, LIMITS, nothingReached, RUNNER_OPTIONS, runSchedule } from './testing/schedules.ts';
import { request, Served, sampling } from './testing/serve.ts';

const open = () => CpuRunner.load(TINY.checkpoint, TINY.config, RUNNER_OPTIONS);
const alone = outcomesAlone(open, LIMITS, ID_GRAMMARS);

async function served(kvBlocks: number, limits: Partial<EngineLimits> = {}) {
  const gated = new GatedRunner(await open(), { blocks: kvBlocks });
  return { gated, served: new Served(gated, TINY_TOKENS, { ...LIMITS, ...limits }) };
}

describe('the engine under random schedules', () => {
  it('gives each sample the ids it has alone, ends every one, and gets every block back', async () => {
    const reached = nothingReached();
    const runs = import.meta.env.SHOAL_LONG === '1' ? 5_000 : 75;
    const property = fc.asyncProperty(anySchedule(), (schedule) => runSchedule(schedule, open, alone, reached));
    await fc.assert(property, { numRuns: runs, endOnFailure: true });
    // The schedules are hard enough: a third of these would be a rare chance.
    expect(reached.retractions).toBeGreaterThan(runs / 3);
    expect(reached.cachedTokens).toBeGreaterThan(runs * 10);
    expect(reached.repeatedSteps).toBeGreaterThan(runs / 2);
    expect(reached.maskedSteps).toBeGreaterThan(runs * 3);
    expect(reached.scoringSteps).toBeGreaterThan(runs / 2);
    expect(reached.hiddenStates).toBeGreaterThan(runs / 3);
    expect(reached.takenOver).toBeGreaterThan(runs / 3);
    expect(Math.min(reached.prompts, reached.constrained)).toBeGreaterThan(runs / 15);
  }, 1_800_000);
});

describe('the engine', () => {
  let gated: GatedRunner;
  let busy: Served;

  beforeAll(async () => {
    ({ gated, served: busy } = await served(12));
    await gated.openForGood();
  });

  const refusal = async (asked: EngineRequest) => {
    busy.submit(asked);
    await busy.until(() => busy.result(asked.jobId).end !== undefined);
    return busy.result(asked.jobId).end;
  };

  it.each([
    ['an empty prompt', 100n, [], {}, 'invalid_argument', /empty/],
    ['an id outside the vocabulary', 101n, [40], {}, 'invalid_argument', /vocabulary of 40/],
    ['more than the context', 102n, [1, 2], { maxNewTokens: CONTEXT - 1 }, 'invalid_argument', /context of 96/],
    [
      'a sample that has its tokens',
      103n,
      [1],
      { maxNewTokens: 2, samples: [{ index: 0, credit: 9, emittedIds: [1, 2] }] },
      'invalid_argument',
      /already/,
    ],
  ] as const)('refuses %s', async (_, jobId, ids, more, code, message) => {
    expect(await refusal(request(jobId, ids, more))).toMatchObject({ type: 'failed', code });
    expect(await refusal(request(jobId, ids, more))).toHaveProperty('message', expect.stringMatching(message));
  });

  it('takes 128 samples with the largest stop strings at once: they share them', async () => {
    const { served: crowd } = await served(12);
    const stopStrings = Array.from({ length: 256 }, (_, at) => `${'€'.repeat(4_000)}${at}`);
    const samples = Array.from({ length: 128 }, (_, index) => ({ index, credit: 9, emittedIds: [] }));
    const begun = performance.now();
    crowd.submit(request(1n, [1, 2, 3], { samples, stopStrings }));
    // Each for itself took 40 s and 14 GB.
    expect(performance.now() - begun).toBeLessThan(2_000);
    const { running, waiting } = crowd.engine.load();
    expect(running + waiting).toBe(128);
    crowd.engine.abortAll();
  });

  it('refuses what the pool can never hold, and what the queue has no room for', async () => {
    const small = await served(2, { maxWaiting: 2 });
    small.served.submit(request(1n, [1, 2, 3], { maxNewTokens: 40 }));
    expect(small.served.result(1n).end).toMatchObject({ code: 'resource_exhausted' });
    const four = Array.from({ length: 4 }, (_, index) => ({ index, credit: 9, emittedIds: [] }));
    small.served.submit(request(2n, [1], { samples: four }));
    expect(small.served.result(2n, 3).end).toMatchObject({ code: 'resource_exhausted' });
    expect(small.served.engine.idle).toBe(true);
  });

  it('goes on after tokens that were made elsewhere, with the draws and stops of the whole', async () => {
    const asked = request(200n, [3, 1, 4], { maxNewTokens: 20, sampling: sampling({ temperature: 1, seed: 5n }) });
    const whole = (await alone(asked, 0)).ids;
    const stop = String.fromCodePoint(97 + whole[9]!, 97 + whole[10]!);
    for (const emitted of [1, 10, 19]) {
      const jobId = 200n + BigInt(emitted);
      const samples = [{ index: 0, credit: 1_000, emittedIds: whole.slice(0, emitted) }];
      busy.submit({ ...asked, jobId, samples });
      await busy.until(() => busy.result(jobId).end !== undefined);
      expect(busy.result(jobId).ids).toEqual(whole);
    }
    // The stop string begins in what was made elsewhere and ends here.
    busy.submit({
      ...asked,
      jobId: 250n,
      stopStrings: [stop],
      samples: [{ index: 0, credit: 99, emittedIds: whole.slice(0, 10) }],
    });
    await busy.until(() => busy.result(250n).end !== undefined);
    expect(busy.result(250n)).toMatchObject({ ids: whole.slice(0, 11), end: { reason: 'stop', matched: stop } });
    // Or it was complete there, and the node was lost before it could say so.
    const complete = [{ index: 0, credit: 99, emittedIds: whole.slice(0, 11) }];
    busy.submit({ ...asked, jobId: 251n, stopStrings: [stop], samples: complete });
    expect(busy.result(251n)).toMatchObject({ ids: whole.slice(0, 11), end: { reason: 'stop', matched: stop } });
  });

  it('prefers length to a stop at the last token, and a stop token to a stop string', async () => {
    const asked = request(300n, [5, 6, 7], { maxNewTokens: 6 });
    const { ids } = await alone(asked, 0);
    const last = ids[5]!;
    const stops = { stopTokenIds: [last], stopStrings: [String.fromCodePoint(97 + last)] };
    const first = ids.indexOf(last) + 1;
    const exact = await alone(request(301n, [5, 6, 7], { maxNewTokens: first, ...stops }), 0);
    expect(exact).toMatchObject({ reason: 'length', matched: undefined, completionTokens: first });
    const longer = await alone(request(302n, [5, 6, 7], { maxNewTokens: first + 1, ...stops }), 0);
    expect(longer).toMatchObject({ reason: 'stop', matched: last, completionTokens: first });
  });

  it('gives logprobs and top logprobs where asked for', async () => {
    const asked = request(400n, [1, 2], { outputLogprobs: true, topLogprobs: 3, maxNewTokens: 2 });
    const { logprobs, topLogprobs } = (await busy.serve(asked)).output;
    expect(logprobs).toHaveLength(2);
    expect(topLogprobs.map((top) => top.ids.length)).toEqual([3, 3]);
    expect(topLogprobs[0]!.logprobs[0]).toBeCloseTo(logprobs[0]!, 5);
  });

  it('makes nothing of a request for no tokens, and says so', async () => {
    busy.submit(request(500n, [1, 2, 3], { maxNewTokens: 0 }));
    await busy.until(() => busy.result(500n).end !== undefined);
    expect(busy.result(500n)).toMatchObject({ ids: [], end: { reason: 'length', completionTokens: 0 } });
  });

  it('fails everything, then and later, once the runner fails', async () => {
    const failing = new Served(new FailingRunner(await open()), TINY_TOKENS, LIMITS);
    failing.submit(request(1n, [1], {}));
    failing.submit(request(2n, [1], {}));
    await failing.until(() => failing.allEnded());
    failing.submit(request(3n, [1], {}));
    for (const job of [1n, 2n, 3n]) {
      expect(failing.result(job).end).toMatchObject({ code: 'unavailable', message: 'the device is gone' });
    }
    expect(failing.engine.idle).toBe(true);
  });

  it('fails a sample whose logits are no numbers, and only that one', async () => {
    const bad = new Served(new NonFiniteRunner(await open()), TINY_TOKENS, LIMITS);
    bad.submit(request(1n, [1], { maxNewTokens: 30 }));
    bad.submit(request(2n, [2], { maxNewTokens: 30 }));
    await bad.until(() => bad.allEnded());
    expect(bad.result(1n).end).toMatchObject({ type: 'failed', code: 'internal' });
    expect(bad.result(2n).end).toMatchObject({ type: 'finished', reason: 'length' });
  });
});

/** Its second step rejects, as after a lost device. */
class FailingRunner extends GatedRunner {
  override async step(batch: StepBatch): Promise<SampledRow[]> {
    void this.openForGood();
    const rows = await super.step(batch);
    await turn();
    if (this.steps > 1) throw new Error('the device is gone');
    return rows;
  }
}

/** From the third step on, the logits of the sequence that begins with token 1 hold a NaN. */
class NonFiniteRunner extends GatedRunner {
  #slot: number | undefined;

  override async step(batch: StepBatch): Promise<SampledRow[]> {
    void this.openForGood();
    const begun = batch.sequences.find(
      ({ tokens, startPosition }) => startPosition === 0 && Array.isArray(tokens) && tokens[0] === 1,
    );
    this.#slot ??= begun?.slot;
    const spoilt = this.steps >= 2;
    const rows = await super.step(batch);
    return rows.map((row, i) => {
      const { slot } = batch.logits[i % batch.logits.length]!;
      return spoilt && slot === this.#slot ? { ...row, nonFinite: true } : row;
    });
  }
}
