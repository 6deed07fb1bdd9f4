import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { EmbedLimits } from '../model/embed-runner.ts';
import { StepError } from '../model/step-error.ts';
import { EmbedAborted, EmbedFailure } from './embed-request.ts';
import { Embedder } from './embedder.ts';
import type { StepThrottle } from './step-throttle.ts';
import { GatedEmbedRunner, settle } from './testing/gated-embed-runner.ts';

interface Setup extends Partial<EmbedLimits> {
  readonly maxWaiting?: number;
  readonly throttle?: StepThrottle;
}

function open({ maxWaiting = 8, throttle, ...limits }: Setup = {}) {
  const runner = new GatedEmbedRunner(limits);
  const broken: string[] = [];
  let time = 0;
  const embedder = new Embedder({
    ...{ runner, maxWaiting, throttle, now: () => time++ },
    onBroken: (reason) => broken.push(reason),
  });
  const embed = (id: string, length: number) => embedder.embed({ id, ids: new Uint32Array(length).fill(3) });
  return { runner, embedder, embed, broken };
}

test('what comes in one breath shares steps, as many as rows allow, in order; a long one is alone', async () => {
  const { runner, embed, embedder } = open({ maxWaiting: 9 });
  const results = [4, 5, 3, 16, 1, 1, 1, 1, 1].map((length, i) => embed(`r${i}`, length));
  await settle();
  // 4 + 5 rows of 10, then 3 and the 16 that fit with nothing.
  expect(runner.sizes).toEqual([2, 1]);
  expect(embedder.load()).toMatchObject({ running: 3, waiting: 6, runningTokens: 12, waitingTokens: 21 });
  await runner.end();
  expect(runner.sizes).toEqual([2, 1, 1]);
  while (runner.pending > 0) await runner.end();
  expect(runner.sizes).toEqual([2, 1, 1, 4, 1]);
  const values = await Promise.all(results);
  expect(values.map(({ tokens }) => tokens)).toEqual([4, 5, 3, 16, 1, 1, 1, 1, 1]);
  expect(values.map((result) => [...result.values])).toEqual(values.map(({ tokens }) => [3 * tokens, tokens]));
  expect(embedder.load()).toMatchObject({ running: 0, waiting: 0, requestsTaken: 9, tokensRead: 33 });
  expect(embedder.load().throughput).toBeGreaterThan(0);
});

test('every request gets its own, whatever comes when, is aborted, or fails', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.oneof(
          fc.record({ kind: fc.constant('embed' as const), length: fc.integer({ min: 1, max: 16 }) }),
          fc.record({ kind: fc.constant('abort' as const), which: fc.nat(20) }),
          fc.record({ kind: fc.constant('end' as const), fails: fc.boolean() }),
        ),
        { maxLength: 40 },
      ),
      async (acts) => {
        const { runner, embedder, embed } = open({ maxWaiting: 100 });
        const results: Promise<unknown>[] = [];
        const lengths: number[] = [];
        for (const act of acts) {
          if (act.kind === 'embed') {
            lengths.push(act.length);
            results.push(embed(`r${results.length}`, act.length).catch((error: Error) => error));
          } else if (act.kind === 'abort') embedder.abort(`r${act.which}`);
          else if (runner.pending > 0) await runner.end(act.fails ? new StepError('refused') : undefined);
          await settle();
        }
        while (runner.pending > 0) await runner.end();
        for (const [i, result] of (await Promise.all(results)).entries()) {
          if (result instanceof Error) expect([EmbedAborted, EmbedFailure]).toContain(result.constructor);
          else
            expect(result).toMatchObject({ tokens: lengths[i], values: Float32Array.of(3 * lengths[i]!, lengths[i]!) });
        }
        expect(embedder.load()).toMatchObject({ running: 0, waiting: 0 });
        expect(runner.sizes.every((size) => size >= 1 && size <= 4)).toBe(true);
      },
    ),
    { numRuns: 40 },
  );
});

test('what is wrong with a request is told, and nothing of its ids', async () => {
  const { embedder, runner } = open({ tokenTypes: 2 });
  const refusal = (request: object) =>
    embedder
      .embed({ id: 'x', ids: [1, 2], ...request })
      .catch((error: EmbedFailure) => `${error.code}: ${error.message}`);
  expect(await refusal({ ids: [] })).toBe('invalid_argument: input_ids is empty');
  expect(await refusal({ ids: [1, 100] })).toBe('invalid_argument: an input id is outside the vocabulary of 100');
  expect(await refusal({ ids: [1, -1] })).toMatch(/^invalid_argument/);
  expect(await refusal({ ids: [1.5] })).toMatch(/^invalid_argument/);
  expect(await refusal({ ids: new Uint32Array(21) })).toBe(
    'invalid_argument: 21 input ids are over the 20 that the model takes',
  );
  expect(await refusal({ ids: new Uint32Array(17) })).toBe(
    'resource_exhausted: 17 input ids, and there is memory for 16',
  );
  expect(await refusal({ typeIds: [0] })).toBe('invalid_argument: token_type_ids has 1 entries for 2 input ids');
  expect(await refusal({ typeIds: [0, 2] })).toBe(
    'invalid_argument: a token_type_ids entry is outside the 2 types there are',
  );
  expect(runner.sizes).toEqual([]);
});

test('the queue has a bound, and no two requests have one id', async () => {
  const { embed, runner } = open({ maxWaiting: 2, maxSequences: 1 });
  const running = [embed('a', 1), embed('b', 1)];
  await settle();
  const waiting = [embed('c', 1), embed('d', 1)];
  await expect(embed('e', 1)).rejects.toMatchObject({ code: 'resource_exhausted' });
  await expect(embed('a', 1)).rejects.toMatchObject({ code: 'invalid_argument' });
  for (let i = 0; i < 4; i++) await runner.end();
  await Promise.all([...running, ...waiting]);
});

test('what is aborted while it waits costs no step', async () => {
  const { embed, runner, embedder } = open({ maxSequences: 1 });
  const first = [embed('a', 1), embed('b', 1)];
  await settle();
  const third = embed('c', 1);
  embedder.abort('c');
  embedder.abort('nobody');
  await expect(third).rejects.toThrow(EmbedAborted);
  await runner.end();
  await runner.end();
  expect(runner.sizes).toEqual([1, 1]);
  await Promise.all(first);
});

test('a result with a NaN fails its request alone', async () => {
  const { embedder, runner } = open();
  runner.embed = async () => [Float32Array.of(1, Number.NaN), Float32Array.of(1, 2)];
  const [bad, good] = await Promise.allSettled(['a', 'b'].map((id) => embedder.embed({ id, ids: [1] })));
  expect(bad).toMatchObject({ status: 'rejected', reason: { code: 'internal' } });
  expect(good).toMatchObject({ status: 'fulfilled' });
});

test('a lost device fails all there is, once, and all that comes', async () => {
  const { embed, runner, broken } = open({ maxSequences: 1 });
  const results = Promise.allSettled(['a', 'b', 'c'].map((id) => embed(id, 1)));
  await settle();
  await runner.end(new Error('the GPU device was lost'));
  await runner.end(new Error('the GPU device was lost'));
  for (const result of await results) {
    expect(result).toMatchObject({ status: 'rejected', reason: { code: 'unavailable' } });
  }
  expect(broken).toEqual(['the GPU device was lost']);
  await expect(embed('d', 1)).rejects.toMatchObject({ code: 'unavailable' });
});

test('destroyed, it fails what is under way and frees the runner', async () => {
  const { embed, embedder, runner, broken } = open();
  const result = embed('a', 1);
  embedder.destroy();
  await expect(result).rejects.toMatchObject({ code: 'unavailable' });
  expect(runner.destroyed).toBe(true);
  expect(broken).toEqual([]);
});

test('a throttle holds the next step back, one at a time', async () => {
  let release = () => {};
  const took: number[] = [];
  const throttle: StepThrottle = {
    overlap: false,
    turn: () => new Promise((resolve) => (release = resolve)),
    took: (ms) => took.push(ms),
  };
  const { embed, runner } = open({ maxSequences: 1, throttle });
  const results = [embed('a', 1), embed('b', 1)];
  await settle();
  expect(runner.sizes).toEqual([]);
  release();
  await settle();
  expect(runner.sizes).toEqual([1]);
  await runner.end();
  expect(runner.sizes).toEqual([1]);
  expect(took).toHaveLength(1);
  release();
  await settle();
  await runner.end();
  await Promise.all(results);
});
