import { describe, expect, it } from 'vitest';
import { Random } from '../gpu/testing/random.ts';
import { CpuRunner } from '../model/cpu-runner.ts';
import type { Runner, SampledRow, StepBatch, StepSequence } from '../model/runner.ts';
import type { EngineLimits, StepTimes } from './engine-options.ts';
import { TINY, TINY_TOKENS } from './testing/any-request.ts';
import { checkBlocks } from './testing/check-blocks.ts';
import { GatedRunner, turn } from './testing/gated-runner.ts';
import { LIMITS, RUNNER_OPTIONS } from './testing/schedules.ts';
import { request, Served, sampling } from './testing/serve.ts';

/** Counts what is computed. */
class CountingRunner extends GatedRunner {
  rows = 0;
  readonly batches: StepBatch[] = [];

  override async step(batch: StepBatch): Promise<SampledRow[]> {
    this.batches.push(batch);
    this.rows += rowsOf(batch);
    return super.step(batch);
  }
}

function rowsOf({ sequences }: StepBatch): number {
  const count = (tokens: StepSequence['tokens']) =>
    tokens === 'slot' ? 1 : 'embeddings' in tokens ? tokens.embeddings.length / 16 : tokens.length;
  return sequences.reduce((rows, { tokens }) => rows + count(tokens), 0);
}

async function serve(limits: Partial<EngineLimits> = {}, blocks?: number) {
  const inner: Runner = await CpuRunner.load(TINY.checkpoint, TINY.config, RUNNER_OPTIONS);
  const runner = new CountingRunner(inner, blocks === undefined ? {} : { blocks });
  return { runner, served: new Served(runner, TINY_TOKENS, { ...LIMITS, ...limits }) };
}

const prompt = (length: number, last = 0) => [...Array.from({ length: length - 1 }, (_, i) => (i * 7) % 40), last];
const samples = (n: number) => Array.from({ length: n }, (_, index) => ({ index, credit: 1_000, emittedIds: [] }));

describe('computed once', () => {
  it('the prompt of several samples', async () => {
    const { runner, served } = await serve();
    await runner.openForGood();
    const drawn = sampling({ temperature: 1, seed: 3n });
    served.submit(request(1n, prompt(40), { samples: samples(4), maxNewTokens: 1, sampling: drawn }));
    await served.until(() => served.allEnded());
    // Forty rows of the prompt, then the last of it for each other sample: its logits are wanted.
    expect(runner.rows).toBe(40 + 3);
    const ends = [0, 1, 2, 3].map((index) => served.result(1n, index).end);
    expect(ends.map((end) => end?.type === 'finished' && end.cachedTokens)).toEqual([0, 39, 39, 39]);
    expect(served.engine.load().cacheHitRate).toBeCloseTo((3 * 39) / (4 * 40));
  });

  it('the embeddings of several samples, of which nothing is left', async () => {
    const { runner, served } = await serve();
    await runner.openForGood();
    const drawn = sampling({ temperature: 1, seed: 3n });
    const more = { inputEmbeds: new Random(3).normals(40 * 16, 1), maxNewTokens: 20, sampling: drawn };
    const alone: (readonly number[])[] = [];
    for (const sample of samples(4)) {
      const one = request(BigInt(sample.index + 1), prompt(40), { ...more, samples: [sample] });
      alone.push((await served.serve(one)).ids);
    }
    expect(served.engine.load().cachedTokens).toBe(0);
    runner.batches.length = 0;
    served.submit(request(9n, prompt(40), { ...more, samples: samples(4) }));
    await served.until(() => served.allEnded());
    for (const [index, ids] of alone.entries()) expect(served.result(9n, index).ids).toEqual(ids);
    const given = runner.batches.flatMap(({ sequences }) => sequences.map(({ tokens }) => tokens));
    const embedded = given.map((tokens) =>
      typeof tokens === 'object' && 'embeddings' in tokens ? tokens.embeddings.length : 0,
    );
    expect(embedded.reduce((sum, length) => sum + length / 16, 0)).toBe(40 + 3);
    expect(served.engine.load()).toMatchObject({ cachedTokens: 0, usedTokens: 0 });
  });

  it('a prefix of two requests that come together', async () => {
    const { runner, served } = await serve();
    served.submit(request(1n, prompt(40, 1), { maxNewTokens: 1 }));
    served.submit(request(2n, prompt(40, 2), { maxNewTokens: 1 }));
    await runner.openForGood();
    await served.until(() => served.allEnded());
    expect(runner.rows).toBe(40 + 1);
    expect(served.result(2n).end).toMatchObject({ cachedTokens: 39 });
  });

  it('a conversation that goes on', async () => {
    const { runner, served } = await serve();
    await runner.openForGood();
    served.submit(request(1n, prompt(20), { maxNewTokens: 14 }));
    await served.until(() => served.allEnded());
    const { ids } = served.result(1n);
    const before = runner.rows;
    served.submit(request(2n, [...prompt(20), ...ids, 5, 6], { maxNewTokens: 1 }));
    await served.until(() => served.allEnded());
    // All but the last token that was drawn, whose KV nobody needed.
    expect(served.result(2n).end).toMatchObject({ cachedTokens: 20 + 14 - 1 });
    expect(runner.rows - before).toBe(3);
  });

  it('nothing, where the cache is off', async () => {
    const { runner, served } = await serve({ prefixCache: false });
    await runner.openForGood();
    served.submit(request(1n, prompt(40), { samples: samples(2), maxNewTokens: 1 }));
    await served.until(() => served.allEnded());
    expect(runner.rows).toBe(80);
    expect(served.engine.load()).toMatchObject({ cachedTokens: 0, cacheHitRate: 0 });
  });
});

describe('turns', () => {
  it('a long prompt is computed in chunks, and a running row is in every step meanwhile', async () => {
    const { runner, served } = await serve();
    served.submit(request(1n, [1, 2], { maxNewTokens: 90 }));
    await runner.release(6);
    const { slot } = served.engine.scheduler.running[0]!;
    served.submit(request(2n, prompt(40), { maxNewTokens: 2 }));
    const from = runner.batches.length;
    await runner.release(200);
    await runner.openForGood();
    await served.until(() => served.allEnded());
    const chunks = runner.batches
      .slice(from)
      .filter(({ sequences }) => sequences.some((s) => s.slot !== slot && s.tokens !== 'slot' && s.startPosition < 39));
    expect(chunks.length).toBeGreaterThan(3);
    for (const { sequences } of chunks) {
      expect(sequences.some((sequence) => sequence.slot === slot)).toBe(true);
      expect(rowsOf({ sequences, logits: [] })).toBeLessThan(16);
    }
  });

  it('the step behind one that runs takes its ids on the GPU', async () => {
    const { runner, served } = await serve();
    served.submit(request(1n, [1, 2], { maxNewTokens: 30 }));
    await turn();
    expect(runner.batches.map(({ sequences }) => sequences[0]!.tokens)).toEqual([[1, 2], 'slot']);
    await runner.openForGood();
    await served.until(() => served.allEnded());
  });

  it('one step at a time where only one may be in flight', async () => {
    const { runner, served } = await serve({ stepsInFlight: 1 });
    served.submit(request(1n, [1, 2], { maxNewTokens: 30 }));
    await turn();
    expect(runner.batches.length).toBe(1);
    await runner.openForGood();
    await served.until(() => served.allEnded());
  });

  it('a parked sequence makes nothing, and makes room for others that need it', async () => {
    // Six blocks: the first sequence takes five and waits for credit.
    const { runner, served } = await serve({}, 6);
    await runner.openForGood();
    const parked = request(1n, prompt(70), { maxNewTokens: 20, samples: [{ index: 0, credit: 2, emittedIds: [] }] });
    served.submit(parked);
    await served.until(() => served.result(1n).ids.length === 2);
    served.submit(request(2n, prompt(60, 9), { maxNewTokens: 8 }));
    await served.until(() => served.result(2n).end !== undefined);
    expect(served.result(1n).ids.length).toBe(2);
    expect(served.engine.load()).toMatchObject({ running: 0, waiting: 1, retracted: 1 });
    served.engine.grant(1n, 0, 20);
    await served.until(() => served.allEnded());
    expect(served.result(1n)).toMatchObject({ end: { reason: 'length', completionTokens: 20 } });
  });

  it('nobody waits for ever behind prefixes that are always longer', async () => {
    const { runner, served } = await serve({ maxRunning: 1 });
    served.submit(request(1n, prompt(40), { maxNewTokens: 1 }));
    await turn();
    served.submit(request(2n, [39, 38, 37], { maxNewTokens: 1 }));
    let later = 3n;
    while (served.result(2n).end === undefined && later < 60n) {
      served.submit(request(later, prompt(40, Number(later % 40n)), { maxNewTokens: 1 }));
      later++;
      await runner.release(4);
    }
    expect(served.result(2n).end).toBeDefined();
    await runner.openForGood();
    await served.until(() => served.allEnded());
  });
});

describe('for maintenance', () => {
  it('tells what waits and is not cached', async () => {
    const { runner, served } = await serve({ maxRunning: 1 });
    served.submit(request(1n, [1, 2], { maxNewTokens: 4 }));
    served.submit(request(2n, [3, 4, 5], { maxNewTokens: 4 }));
    expect(served.engine.load()).toMatchObject({ running: 1, waiting: 1, waitingUncachedTokens: 3 });
    await runner.openForGood();
    await served.until(() => served.allEnded());
    expect(served.engine.load()).toMatchObject({ waiting: 0, waitingUncachedTokens: 0 });
  });

  it('a flush while something runs frees what is not locked, and says how much', async () => {
    const { runner, served } = await serve();
    await runner.openForGood();
    served.submit(request(1n, prompt(48), { maxNewTokens: 1 }));
    await served.until(() => served.allEnded());
    const held = await serve();
    held.served.submit(request(1n, prompt(33, 4), { maxNewTokens: 60 }));
    await held.runner.release(5);
    expect(served.engine.load().cachedTokens).toBe(48);
    expect(served.engine.flushCache()).toBe(48);
    expect(served.engine.load()).toMatchObject({ cachedTokens: 0, usedTokens: 0 });
    // Two whole blocks are shared by the one that runs: locked.
    expect(held.served.engine.load().cachedTokens).toBe(32);
    expect(held.served.engine.flushCache()).toBe(0);
    checkBlocks(held.served.engine.scheduler);
  });
});

it('tells the times of each step', async () => {
  const steps: StepTimes[] = [];
  const inner = await CpuRunner.load(TINY.checkpoint, TINY.config, RUNNER_OPTIONS);
  const served = new Served(inner, TINY_TOKENS, LIMITS, { onStep: (step) => steps.push(step) });
  served.submit(request(1n, prompt(20), { maxNewTokens: 5 }));
  await served.until(() => served.allEnded());
  expect(steps.reduce((rows, step) => rows + step.prefillRows, 0)).toBe(20);
  expect(steps.every((step) => step.ms >= 0 && step.hostMs >= 0 && step.steps >= 1)).toBe(true);
});
