import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { CpuRunner } from '../model/cpu-runner.ts';
import type { SampledRow, StepBatch } from '../model/runner.ts';
import { tinyModel } from '../model/testing/tiny-model.ts';
import type { EngineLimits } from './engine.ts';
import type { EngineRequest } from './request.ts';
import { checkBlocks } from './testing/check-blocks.ts';
import { GatedRunner, turn } from './testing/gated-runner.ts';
import { letterTokens, request, type SampleResult, Served } from './testing/serve.ts';

const VOCAB = 40;
const CONTEXT = 96;
const model = tinyModel(7, { vocabSize: VOCAB, contextLength: CONTEXT });
const tokens = letterTokens(VOCAB);
const LIMITS: EngineLimits = {
  maxRunning: 6,
  maxWaiting: 200,
  prefillRows: 12,
  stepsInFlight: 2,
  policy: 'lpm',
  prefixCache: true,
};

function runner(kvBlocks: number): Promise<CpuRunner> {
  const options = { kvBlocks, maxRows: 20, maxSequences: 6, maxTopLogprobs: 5 };
  return CpuRunner.load(model.checkpoint, model.config, options);
}

async function served(kvBlocks: number, limits = LIMITS) {
  const gated = new GatedRunner(await runner(kvBlocks));
  return { gated, served: new Served(gated, tokens, limits) };
}

/** What must not depend on who else runs. */
function outcome({ ids, end }: SampleResult) {
  if (end?.type !== 'finished') return { ids, end: end?.message };
  return { ids, reason: end.reason, matched: end.matched, completionTokens: end.completionTokens };
}

/** What a sample brings when nothing else runs; the answer of each request is asked for once. */
const alone = (() => {
  const known = new Map<string, Promise<ReturnType<typeof outcome>>>();
  return (asked: EngineRequest, index: number) => {
    const key = JSON.stringify({ ...asked, jobId: 0, samples: index }, (_, value) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    if (!known.has(key)) known.set(key, compute(asked, index));
    return known.get(key)!;
  };
  async function compute(asked: EngineRequest, index: number) {
    const { gated, served: quiet } = await served(6);
    await gated.openForGood();
    quiet.submit({ ...asked, jobId: 1n, samples: [{ index, credit: 1_000_000, emittedIds: [] }] });
    await quiet.until(() => quiet.allEnded());
    return outcome(quiet.result(1n, index));
  }
})();

const anyRequest = fc
  .record({
    prompt: fc.array(fc.nat(VOCAB - 1), { minLength: 1, maxLength: 50 }),
    maxNewTokens: fc.nat(24),
    temperature: fc.constantFrom(0, 0, 0.8, 1.5),
    seed: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    n: fc.integer({ min: 1, max: 3 }),
    stopTokenIds: fc.array(fc.nat(VOCAB - 1), { maxLength: 2 }),
    stopStrings: fc.array(fc.stringMatching(/^[a-h]{1,2}$/), { maxLength: 2 }),
    credit: fc.integer({ min: 1, max: 30 }),
  })
  .map(({ prompt, temperature, seed, n, credit, ...rest }) => ({
    ...rest,
    inputIds: prompt,
    sampling: { temperature, seed, topK: 0, topP: 1, minP: 0 },
    samples: Array.from({ length: n }, (_, index) => ({ index, credit, emittedIds: [] })),
  }));

const anyAct = fc.oneof(
  { weight: 4, arbitrary: fc.record({ submit: anyRequest }) },
  { weight: 5, arbitrary: fc.record({ steps: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 1, arbitrary: fc.record({ abort: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ grant: fc.nat(20), credit: fc.integer({ min: 1, max: 40 }) }) },
);

describe('the engine under random schedules', () => {
  it('gives each sample the ids it has alone, ends every one, and gets every block back', async () => {
    const runs = import.meta.env.SHOAL_LONG === '1' ? 5_000 : 100;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 6, max: 24 }), fc.array(anyAct, { maxLength: 24 }), async (blocks, acts) => {
        const { gated, served: busy } = await served(blocks);
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
            expect(busy.engine.abort(job.jobId)).toBe(running);
            if (running) aborted.add(job.jobId);
          } else {
            const job = picked(act.grant);
            for (const { index } of job?.samples ?? []) busy.engine.grant(job!.jobId, index, act.credit);
          }
          checkBlocks(busy.engine.scheduler);
          const load = busy.engine.load();
          expect(load.running).toBeLessThanOrEqual(LIMITS.maxRunning);
          expect(load.usedTokens).toBeLessThanOrEqual(load.maxTokens);
        }
        for (const { jobId, samples } of submitted) {
          for (const { index, credit } of samples) {
            const { ids, end } = busy.result(jobId, index);
            // Nothing past the credit: only an act of `grant` raises it.
            if (!acts.some((act) => 'grant' in act)) expect(ids.length).toBeLessThanOrEqual(credit);
            if (end === undefined) busy.engine.grant(jobId, index, 1_000);
          }
        }
        await gated.openForGood();
        await busy.until(() => busy.allEnded());
        for (const asked of submitted) {
          for (const { index } of asked.samples) {
            const result = busy.result(asked.jobId, index);
            const expected = await alone(asked, index);
            if (result.end?.type === 'finished' && result.end.reason === 'abort') {
              expect(aborted.has(asked.jobId)).toBe(true);
              expect(result.ids).toEqual(expected.ids.slice(0, result.ids.length));
            } else {
              expect(outcome(result)).toEqual(expected);
            }
          }
        }
        checkBlocks(busy.engine.scheduler);
        expect(busy.engine.idle).toBe(true);
        expect(busy.engine.load()).toMatchObject({ running: 0, waiting: 0, usedTokens: 0 });
        expect(busy.engine.abort(1n)).toBe(false);
        gated.destroy();
      }),
      { numRuns: runs },
    );
  }, 300_000);
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
    ['an id outside the vocabulary', 101n, [VOCAB], {}, 'invalid_argument', /vocabulary of 40/],
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

  it('refuses what the pool can never hold, and what the queue has no room for', async () => {
    const small = await served(2, { ...LIMITS, maxWaiting: 2 });
    small.served.submit(request(1n, [1, 2, 3], { maxNewTokens: 40 }));
    expect(small.served.result(1n).end).toMatchObject({ code: 'resource_exhausted' });
    const four = Array.from({ length: 4 }, (_, index) => ({ index, credit: 9, emittedIds: [] }));
    small.served.submit(request(2n, [1], { samples: four }));
    expect(small.served.result(2n, 3).end).toMatchObject({ code: 'resource_exhausted' });
    expect(small.served.engine.idle).toBe(true);
  });

  it('goes on after tokens that were made elsewhere, with the draws and stops of the whole', async () => {
    const sampling = { temperature: 1, seed: 5n, topK: 0, topP: 1, minP: 0 };
    const asked = request(200n, [3, 1, 4], { maxNewTokens: 20, sampling });
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
    busy.submit(request(400n, [1, 2], { outputLogprobs: true, topLogprobs: 3, maxNewTokens: 2 }));
    await busy.until(() => busy.result(400n).end !== undefined);
    const { logprobs, topLogprobs } = busy.tokensOf(400n);
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
    const failing = new Served(new FailingRunner(await runner(12)), tokens, LIMITS);
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
    const bad = new Served(new NonFiniteRunner(await runner(12)), tokens, LIMITS);
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
    const begun = batch.sequences.find(({ tokens, startPosition }) => startPosition === 0 && tokens[0] === 1);
    this.#slot ??= begun?.slot;
    const spoilt = this.steps >= 2;
    const rows = await super.step(batch);
    return rows.map((row, i) => {
      const { slot } = batch.logits[i % batch.logits.length]!;
      return spoilt && slot === this.#slot ? { ...row, nonFinite: true } : row;
    });
  }
}
