import { describe, expect, it } from 'vitest';
import { Random } from '../gpu/testing/random.ts';
import { CpuRunner } from '../model/cpu-runner.ts';
import type { SampledRow, StepBatch } from '../model/runner.ts';
import { CONTEXT, TINY, TINY_TOKENS } from './testing/any-request.ts';
import { GatedRunner, type NarrowLimits } from './testing/gated-runner.ts';
import { LIMITS, RUNNER_OPTIONS } from './testing/schedules.ts';
import { request, Served, sampling } from './testing/serve.ts';

/** Keeps what it was given. */
class KeepingRunner extends GatedRunner {
  readonly batches: StepBatch[] = [];

  override step(batch: StepBatch): Promise<SampledRow[]> {
    this.batches.push(batch);
    return super.step(batch);
  }
}

async function serve(narrow: NarrowLimits = {}) {
  const runner = new KeepingRunner(await CpuRunner.load(TINY.checkpoint, TINY.config, RUNNER_OPTIONS), narrow);
  return { runner, served: new Served(runner, TINY_TOKENS, LIMITS) };
}

const prompt = (length: number, last = 0) => [...Array.from({ length: length - 1 }, (_, i) => (i * 7) % 40), last];
const samples = (n: number) => Array.from({ length: n }, (_, index) => ({ index, credit: 1_000, emittedIds: [] }));

describe('the logprobs of a prompt', () => {
  it('are those of its tokens, told in chunks that fit a step, once, though what is before them is cached', async () => {
    const { runner, served } = await serve({ maxLogitsRows: 7 });
    await runner.openForGood();
    const ids = prompt(40, 9);
    await served.serve(request(1n, ids, { maxNewTokens: 1 }));
    const told = await served.serve(request(2n, ids, { maxNewTokens: 1, logprobStart: 20, logprobIds: [3, ids[30]!] }));
    expect(told.input).toMatchObject({ start: 20 });
    expect(told.input.logprobs).toHaveLength(20);
    // Token 30's logprob, asked for twice: as the prompt's, and by its id.
    expect(told.input.idLogprobs[10]![1]).toBe(told.input.logprobs[10]);
    expect(told.end).toMatchObject({ cachedTokens: 19 });
    const scored = runner.batches.map(({ logits }) => logits.filter((row) => row.scored !== undefined).length);
    expect(scored.reduce((sum, count) => sum + count, 0)).toBe(20);
    expect(Math.max(...scored)).toBe(7);
    // A prompt that ends there draws the next token with the same logprob.
    const cut = request(3n, ids.slice(0, 30), { maxNewTokens: 1, outputLogprobs: true, logprobIds: [ids[30]!] });
    expect((await served.serve(cut)).output.idLogprobs[0]![0]).toBeCloseTo(told.input.logprobs[10]!, 5);
  });

  it('of a prompt of one token, of none of it, and with no token to make', async () => {
    const { runner, served } = await serve();
    await runner.openForGood();
    const one = await served.serve(request(1n, [5], { logprobStart: 0, topLogprobs: 2, logprobIds: [1] }));
    expect(one.input).toMatchObject({ start: 0, logprobs: [undefined] });
    expect(one.input.topLogprobs[0]!.ids).toHaveLength(0);
    expect(one.input.idLogprobs[0]).toHaveLength(0);
    expect((await served.serve(request(2n, [5, 6], { logprobStart: 2 }))).input.logprobs).toEqual([]);
    const none = await served.serve(request(3n, prompt(20), { logprobStart: 3, maxNewTokens: 0, hiddenStates: true }));
    expect(none.input).toMatchObject({ start: 3 });
    expect(none.input.logprobs).toHaveLength(17);
    if (none.end?.type !== 'finished') throw new Error('it failed');
    expect(none.end).toMatchObject({ reason: 'length', completionTokens: 0 });
    const drawn = await served.serve(request(4n, prompt(20), { hiddenStates: true, maxNewTokens: 2 }));
    expect(drawn.output.hiddenStates).toHaveLength(2);
    expect(none.end.hiddenState).toEqual(drawn.output.hiddenStates[0]);
  });

  it('are told by the first of several samples, and the others share what it computes', async () => {
    const { runner, served } = await serve();
    await runner.openForGood();
    served.submit(request(1n, prompt(40), { samples: samples(3), maxNewTokens: 1, logprobStart: 0 }));
    await served.until(() => served.allEnded());
    expect([0, 1, 2].map((index) => served.result(1n, index).input.logprobs.length)).toEqual([40, 0, 0]);
    expect(served.result(1n, 2).end).toMatchObject({ cachedTokens: 39 });
  });
});

describe('what there is too little of in a step', () => {
  it('goes round: every row gets its top logprobs in turn, and those that want none are in each step', async () => {
    const { runner, served } = await serve({ maxTop: 5 });
    for (let job = 1n; job <= 3n; job++) {
      served.submit(request(job, [Number(job)], { outputLogprobs: true, topLogprobs: 5, maxNewTokens: 20 }));
    }
    served.submit(request(4n, [9], { maxNewTokens: 60 }));
    await runner.release(40);
    const counts = [1n, 2n, 3n].map((job) => served.result(job).ids.length);
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(2);
    expect(served.result(4n).ids.length).toBeGreaterThan(30);
    await runner.openForGood();
    await served.until(() => served.allEnded());
    expect(served.result(2n).output.topLogprobs).toHaveLength(20);
  });

  it('is a prompt’s turn too, beside rows that always want all', async () => {
    const { runner, served } = await serve({ maxTop: 5 });
    served.submit(request(1n, [1], { outputLogprobs: true, topLogprobs: 5, maxNewTokens: 90 }));
    await runner.release(6);
    served.submit(request(2n, prompt(20), { logprobStart: 0, topLogprobs: 5, maxNewTokens: 1 }));
    await runner.release(60);
    expect(served.result(2n).end).toBeDefined();
    expect(served.result(1n).ids.length).toBeGreaterThan(20);
    await runner.openForGood();
    await served.until(() => served.allEnded());
  });

  it('leaves the logits rows of those that decode alone', async () => {
    const { runner, served } = await serve({ maxLogitsRows: 6 });
    served.submit(request(1n, [1], { maxNewTokens: 90 }));
    await runner.release(6);
    served.submit(request(2n, prompt(40), { logprobStart: 0, maxNewTokens: 1 }));
    const from = runner.batches.length;
    await runner.release(60);
    const mixed = runner.batches.slice(from).filter(({ logits }) => logits.some((row) => row.scored !== undefined));
    expect(mixed.length).toBeGreaterThan(5);
    for (const { logits } of mixed) expect(logits.some((row) => row.scored === undefined)).toBe(true);
    await runner.openForGood();
    await served.until(() => served.allEnded());
  });
});

describe('embeddings in place of ids', () => {
  const embeds = (length: number) => new Random(3).normals(length * 16, 1);

  it('neither find nor leave anything in the cache', async () => {
    const { runner, served } = await serve();
    await runner.openForGood();
    const ids = prompt(40);
    const plain = await served.serve(request(1n, ids));
    const given = await served.serve(request(2n, ids, { inputEmbeds: embeds(40) }));
    expect(given.end).toMatchObject({ cachedTokens: 0 });
    expect(given.ids).not.toEqual(plain.ids);
    served.engine.flushCache();
    await served.serve(request(3n, ids, { inputEmbeds: embeds(40) }));
    expect(served.engine.load()).toMatchObject({ cachedTokens: 0, usedTokens: 0 });
    expect((await served.serve(request(4n, ids))).ids).toEqual(plain.ids);
  });

  it('come before the ids of an output that was made elsewhere', async () => {
    const { runner, served } = await serve();
    await runner.openForGood();
    const more = { inputEmbeds: embeds(20), maxNewTokens: 16, sampling: sampling({ temperature: 1, seed: 4n }) };
    const whole = await served.serve(request(1n, prompt(20), more));
    const taken = [{ index: 0, credit: 99, emittedIds: whole.ids.slice(0, 9) }];
    expect((await served.serve(request(2n, prompt(20), { ...more, samples: taken }))).ids).toEqual(whole.ids);
  });
});

it('a prompt that samples share waits once', async () => {
  const { runner, served } = await serve();
  served.submit(request(1n, [1], { maxNewTokens: CONTEXT - 1 }));
  served.submit(request(2n, prompt(30), { samples: samples(4) }));
  // The first step was planned before the second request came.
  expect(served.engine.load()).toMatchObject({ running: 1, waiting: 4, waitingUncachedTokens: 30 });
  await runner.openForGood();
  await served.until(() => served.allEnded());
});

it.each([
  ['frequency_penalty', { sampling: sampling({ frequencyPenalty: 2.5 }) }],
  ['presence_penalty', { sampling: sampling({ presencePenalty: Number.NaN }) }],
  ['repetition_penalty', { sampling: sampling({ repetitionPenalty: 0 }) }],
  ['min_new_tokens', { sampling: sampling({ minNewTokens: 9 }) }],
  ['stop_token_ids', { stopTokenIds: [40] }],
  ['stop_token_ids', { sampling: sampling({ maskedStopIds: [-1] }) }],
  ['logit_bias', { sampling: sampling({ biases: [{ id: 40, bias: 1 }] }) }],
  ['logit_bias', { sampling: sampling({ biases: [{ id: 4, bias: Number.POSITIVE_INFINITY }] }) }],
  [
    'logit_bias',
    {
      sampling: sampling({
        biases: [
          { id: 4, bias: 1 },
          { id: 4, bias: 2 },
        ],
      }),
    },
  ],
  ['logit_bias', { sampling: sampling({ biases: Array.from({ length: 41 }, (_, id) => ({ id, bias: 1 })) }) }],
  ['top_logprobs_num', { topLogprobs: 6 }],
  ['token_ids_logprob', { logprobIds: [40] }],
  ['token_ids_logprob', { logprobIds: Array.from({ length: 100 }, () => 1) }],
  ['logprob_start_len', { logprobStart: 3 }],
  ['input_embeds', { inputEmbeds: new Float32Array(31) }],
  ['input_embeds', { inputEmbeds: new Float32Array(32).fill(Number.NaN) }],
])('a wrong %s is refused by name', async (name, more) => {
  const { runner, served } = await serve();
  await runner.openForGood();
  const { end } = await served.serve(request(1n, [1, 2], more));
  expect(end).toMatchObject({ code: 'invalid_argument', message: expect.stringContaining(name) });
});
