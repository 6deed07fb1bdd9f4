import { expect, it } from 'vitest';
import { CpuRunner } from '../model/cpu-runner.ts';
import { GrammarError, type GrammarMatcher, type GrammarState, type Grammars } from './grammars.ts';
import type { EngineRequest } from './request.ts';
import { STOP_IDS, TINY, TINY_TOKENS, VOCAB } from './testing/any-request.ts';
import { CountedGrammars } from './testing/counted-grammars.ts';
import { GatedRunner, turn } from './testing/gated-runner.ts';
import type { IdAutomaton } from './testing/id-grammars.ts';
import { ID_GRAMMARS, LIMITS, RUNNER_OPTIONS } from './testing/schedules.ts';
import { request, Served, sampling } from './testing/serve.ts';

const WORDS = Math.ceil(VOCAB / 32);

async function serve(grammars: Grammars | undefined, maskPatienceMs = 1_000) {
  const runner = new GatedRunner(await CpuRunner.load(TINY.checkpoint, TINY.config, RUNNER_OPTIONS));
  const served = new Served(runner, TINY_TOKENS, LIMITS, { maskPatienceMs, ...(grammars ? { grammars } : {}) });
  await runner.openForGood();
  return { runner, served };
}

const automaton = (more: Partial<IdAutomaton> = {}) => ({ seed: 1, states: 3, density: 4, ends: 100_000, ...more });

function constrained(jobId: bigint, text: string, more: Partial<EngineRequest> = {}): EngineRequest {
  return request(jobId, [1, 2, 3], { constraint: { kind: 'regex', text }, ...more });
}

function maskOf(ids: readonly number[]): Uint32Array {
  const mask = new Uint32Array(WORDS);
  for (const id of ids) mask[id >>> 5]! |= 1 << (id & 31);
  return mask;
}

/** A matcher whose states are given, and whose answers come when the test says so. */
class ScriptedGrammars implements Grammars {
  readonly accepted: number[] = [];
  closed = 0;
  readonly #states: readonly GrammarState[];
  readonly #answer: () => Promise<void>;

  constructor(states: readonly GrammarState[], answer: () => Promise<void> = () => Promise.resolve()) {
    this.#states = states;
    this.#answer = answer;
  }

  async open(): Promise<GrammarMatcher> {
    let at = 0;
    return {
      state: this.#states[0]!,
      accept: async (...ids) => {
        this.accepted.push(...ids);
        await this.#answer();
        at = Math.min(at + ids.length, this.#states.length - 1);
        return this.#states[at]!;
      },
      look: async () => [],
      close: () => {
        this.closed++;
      },
    };
  }

  destroy(): void {}
}

const only = (ids: readonly number[]): GrammarState => ({ mask: maskOf(ids), finished: false });
const END: GrammarState = { mask: new Uint32Array(WORDS), finished: true };

it('is refused where no grammars are served, by name', async () => {
  const { served } = await serve(undefined);
  const { end } = await served.serve(constrained(1n, '{}'));
  expect(end).toMatchObject({ code: 'unimplemented', message: 'regex is not served here' });
});

it('a bad constraint fails its own request with its reason, and nobody else', async () => {
  const { served } = await serve(new CountedGrammars(ID_GRAMMARS, turn));
  served.submit(constrained(1n, JSON.stringify(automaton({ fault: 'refused' }))));
  served.submit(request(2n, [1, 2, 3], { maxNewTokens: 20 }));
  await served.until(() => served.allEnded());
  const refused = { type: 'failed', code: 'invalid_argument', message: 'the constraint is wrong at 0' };
  expect(served.result(1n)).toMatchObject({ ids: [], end: refused });
  expect(served.result(2n).end).toMatchObject({ type: 'finished', reason: 'length' });
});

it.each([
  ['the end of its constraint, where it is that', END, 4],
  ['the stop string, where its constraint goes on', only([5]), TINY_TOKENS.bytes(4)],
])('an output made elsewhere that completes a stop string ends as %s', async (_, state, matched) => {
  const { served } = await serve(new ScriptedGrammars([state]));
  const text = new TextDecoder().decode(TINY_TOKENS.bytes(4));
  const samples = [{ index: 0, credit: 100, emittedIds: [3, 4] }];
  const { end } = await served.serve(constrained(1n, 'made', { samples, stopStrings: [text] }));
  expect(end).toMatchObject({ reason: 'stop', matched: typeof matched === 'number' ? matched : text });
});

it('others run while one is compiled, and an abort meanwhile closes what comes of it', async () => {
  let compiled: () => void = () => {};
  const compiling = new Promise<void>((resolve) => {
    compiled = resolve;
  });
  const grammars = new CountedGrammars(ID_GRAMMARS, () => compiling);
  const { served } = await serve(grammars);
  served.submit(constrained(1n, JSON.stringify(automaton())));
  expect((await served.serve(request(2n, [1, 2, 3], { maxNewTokens: 30 }))).end).toMatchObject({ reason: 'length' });
  expect(served.result(1n)).toMatchObject({ ids: [], end: undefined });
  expect(served.engine.load()).toMatchObject({ running: 0, waiting: 1 });
  expect(served.engine.abort(1n)).toBe(true);
  expect(served.result(1n).end).toMatchObject({ reason: 'abort' });
  compiled();
  await turn();
  expect(grammars).toMatchObject({ opened: 1, closed: 1 });
  expect(served.engine.idle).toBe(true);
});

it('a slow matcher makes nobody else wait', async () => {
  const held: (() => void)[] = [];
  const any: GrammarState = { mask: undefined, finished: false };
  const grammars = new ScriptedGrammars([any], () => new Promise((resolve) => held.push(resolve)));
  const { served } = await serve(grammars, 1);
  served.submit(constrained(1n, 'slow', { maxNewTokens: 4 }));
  expect((await served.serve(request(2n, [4, 5], { maxNewTokens: 60 }))).end).toMatchObject({ reason: 'length' });
  expect(served.result(1n).ids).toEqual([]);
  const free = (await served.serve(request(3n, [1, 2, 3], { maxNewTokens: 4 }))).ids;
  while (served.result(1n).end === undefined) {
    held.shift()?.();
    await turn();
  }
  // Drawn again once its mask was known, with the same draw.
  expect(served.result(1n)).toMatchObject({ ids: free, end: { reason: 'length' } });
  expect(grammars.closed).toBe(1);
});

it('a matcher that fails on the way ends its own sample', async () => {
  const failing = () => Promise.reject(new GrammarError('internal', 'the worker is gone'));
  const grammars = new ScriptedGrammars([only([7])], failing);
  const { served } = await serve(grammars);
  served.submit(constrained(1n, ''));
  served.submit(request(2n, [1, 2, 3]));
  await served.until(() => served.allEnded());
  expect(served.result(1n).end).toMatchObject({ code: 'internal', message: 'the worker is gone' });
  expect(served.result(2n).end).toMatchObject({ reason: 'length' });
  expect(grammars.closed).toBe(1);
});

it('one that allows only the end ends with stop and the id that ended it', async () => {
  const { served } = await serve(new ScriptedGrammars([only(STOP_IDS), END]));
  // Also where EOS is ignored: what comes after isn't in the constraint.
  const result = await served.serve(constrained(1n, '', { stopTokenIds: [] }));
  expect(result).toMatchObject({ ids: STOP_IDS, end: { reason: 'stop', matched: STOP_IDS[0] } });
});

it('length wins over the constraint, and the constraint over a stop token and a stop string', async () => {
  const states = [only([7]), only([8]), END];
  const letter = String.fromCodePoint(97 + 8);
  const stops = { stopTokenIds: [8], stopStrings: [letter] };
  const { served } = await serve(new ScriptedGrammars(states));
  const length = await served.serve(constrained(1n, '', { ...stops, maxNewTokens: 2 }));
  expect(length).toMatchObject({ ids: [7, 8], end: { reason: 'length', matched: undefined } });
  const longer = await served.serve(constrained(2n, '', { stopStrings: [letter], maxNewTokens: 3 }));
  expect(longer).toMatchObject({ ids: [7, 8], end: { reason: 'stop', matched: 8 } });
});

it('ends where min_new_tokens withholds all that may come, and never draws what is masked', async () => {
  const withheld = sampling({ minNewTokens: 5, maskedStopIds: STOP_IDS });
  const { served } = await serve(new ScriptedGrammars([only([7]), only(STOP_IDS), END]));
  const result = await served.serve(constrained(1n, '', { sampling: withheld }));
  expect(result).toMatchObject({ ids: [7], end: { reason: 'stop', matched: 7 } });
  const empty = await serve(new ScriptedGrammars([only(STOP_IDS), END]));
  const nothing = await empty.served.serve(constrained(1n, '', { sampling: withheld }));
  expect(nothing).toMatchObject({ ids: [], end: { reason: 'stop', matched: undefined, completionTokens: 0 } });
});

it('fails where no id of the vocabulary may come', async () => {
  const { served } = await serve(new ScriptedGrammars([only([7]), only([])]));
  const { ids, end } = await served.serve(constrained(1n, ''));
  expect(ids).toEqual([7]);
  expect(end).toMatchObject({ code: 'invalid_argument', message: expect.stringMatching(/vocabulary/) });
});

it('tells the whole prompt before it ends with nothing to draw', async () => {
  const withheld = sampling({ minNewTokens: 5, maskedStopIds: STOP_IDS });
  const { served } = await serve(new ScriptedGrammars([only(STOP_IDS)]));
  const asked = { sampling: withheld, logprobStart: 0, hiddenStates: true };
  const { input, end } = await served.serve(constrained(1n, '', asked));
  expect(input.logprobs).toHaveLength(3);
  expect(end).toMatchObject({ reason: 'stop', hiddenState: { length: TINY.config.hiddenSize } });
});

it('tells the whole prompt too where the constraint is met before the first token', async () => {
  const { served } = await serve(new ScriptedGrammars([END]));
  const { ids, input, end } = await served.serve(constrained(1n, '', { logprobStart: 0, hiddenStates: true }));
  expect({ ids, logprobs: input.logprobs.length }).toEqual({ ids: [], logprobs: 3 });
  const hiddenState = { length: TINY.config.hiddenSize };
  expect(end).toMatchObject({ reason: 'stop', matched: undefined, completionTokens: 0, hiddenState });
});

it('was complete where it was taken over', async () => {
  const grammars = new ScriptedGrammars([END]);
  const { served } = await serve(grammars);
  const samples = [{ index: 0, credit: 9, emittedIds: [7, 2] }];
  const { ids, end } = await served.serve(constrained(1n, '', { samples }));
  expect(ids).toEqual([7, 2]);
  expect(end).toMatchObject({ reason: 'stop', matched: 2, completionTokens: 2 });
  expect(grammars.closed).toBe(1);
});

it('a masked row is in every step, and makes it a single one', async () => {
  const { runner, served } = await serve(new ScriptedGrammars([{ mask: undefined, finished: false }]));
  served.submit(constrained(1n, '', { maxNewTokens: 40 }));
  served.submit(request(2n, [4, 5], { maxNewTokens: 40 }));
  await served.until(() => served.allEnded());
  expect(runner.maskedSteps).toBe(40);
  expect(runner.repeatedSteps).toBe(0);
});
