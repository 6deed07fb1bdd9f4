import { readFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readTokenBytes } from '../../checkpoint/token-bytes.ts';
import { nodeGrammarWorkers } from '../../testing/grammar-worker.node.ts';
import { GrammarError, type GrammarMatcher } from '../grammars.ts';
import type { Constraint } from '../request.ts';
import type { StartGrammarWorker } from './grammar-messages.ts';
import { type GrammarLimits, GrammarPool } from './grammar-pool.ts';
import { grammarVocabulary } from './grammar-vocabulary.ts';
import { HOSTILE } from './testing/hostile-constraints.ts';

const EOS = 2;
const tokens = readTokenBytes(await readFile('models/stories260K/tokenizer.json', 'utf8'), 'tokenizer.json');
const vocabulary = grammarVocabulary(tokens, 512, [EOS]);
const start = await nodeGrammarWorkers();
const LETTERS: Constraint = { kind: 'regex', text: '[a-c]*' };
const NUMBERS: Constraint = { kind: 'json_schema', text: '{"type":"array","items":{"type":"integer"}}' };
/** A schema that takes this machine over a second, and whose first mask is quick. */
const DEAR: Constraint = {
  kind: 'regex',
  text: `(${Array.from({ length: 200 }, (_, i) => `a{${i}}b`).join('|')}){200}`,
};

let pool: GrammarPool | undefined;
let started = 0;
const counting: StartGrammarWorker = (...args) => {
  started++;
  return start(...args);
};
function newPool(limits: Partial<GrammarLimits> = {}): GrammarPool {
  started = 0;
  pool = new GrammarPool(vocabulary, counting, limits);
  return pool;
}
afterEach(() => {
  pool?.destroy();
  expect(pool?.workers ?? 0).toBe(0);
});

const idOf = (text: string) => {
  const wanted = [...new TextEncoder().encode(text)].join();
  return Array.from({ length: tokens.vocabSize }, (_, id) => id).find(
    (id) => [...tokens.bytes(id)].join() === wanted && !tokens.isSpecial(id),
  )!;
};
const allowed = ({ state: { mask } }: GrammarMatcher) =>
  Array.from({ length: 512 }, (_, id) => id).filter((id) => mask![id >> 5]! & (1 << (id & 31)));
const texts = (matcher: GrammarMatcher) =>
  [...new Set(allowed(matcher).map((id) => (id === EOS ? 'end' : new TextDecoder().decode(tokens.bytes(id)))))].sort();

describe('a matcher', () => {
  it('looks along ids without taking them, up to what can’t come, ends the output, or has no next', async () => {
    const opened = newPool();
    const matcher = await opened.open({ kind: 'regex', text: '(ab|ac)*é?' }, []);
    const [a, b, c] = [idOf('a'), idOf('b'), idOf('c')];
    const before = allowed(matcher);
    const masks = (states: readonly { readonly mask: Uint32Array | undefined }[]) =>
      states.map(({ mask }) => [...mask!]);
    const ahead = masks(await matcher.look([a, b, a, c, c, a]));
    expect(ahead).toHaveLength(4);
    expect(await matcher.look([b, a])).toEqual([]);
    expect(masks(await matcher.look([a, b, EOS, a]))).toEqual(ahead.slice(0, 2));
    expect(masks(await matcher.look([a, 0, b]))).toEqual(ahead.slice(0, 1));
    expect(allowed(matcher)).toEqual(before);
    // Taken one by one, or several at once, the states are those that were seen.
    expect(masks([await matcher.accept(a)])).toEqual(ahead.slice(0, 1));
    expect(masks(await matcher.look([b, a, c]))).toEqual(ahead.slice(1));
    expect(masks([await matcher.accept(b, a, c)])).toEqual(ahead.slice(3));
    const elsewhere = await opened.open({ kind: 'regex', text: '(ab|ac)*é?' }, [a, b, a, c]);
    expect(masks([elsewhere.state])).toEqual(ahead.slice(3));
    matcher.close();
    await expect(matcher.look([a])).rejects.toThrow('its worker is gone');
  });

  it('says what may come, and is finished when the end was taken', async () => {
    const matcher = await newPool().open({ kind: 'regex', text: 'ab' }, []);
    expect(texts(matcher)).toEqual(['a']);
    const { mask } = await matcher.accept(idOf('a'));
    expect(mask).toBe(matcher.state.mask);
    expect(texts(matcher)).toEqual(['b']);
    await matcher.accept(idOf('b'));
    expect(texts(matcher)).toEqual(['end']);
    expect(matcher.state.finished).toBe(false);
    expect(await matcher.accept(EOS)).toEqual({ mask: undefined, finished: true });
  });

  it('takes an output made before', async () => {
    const matcher = await newPool().open({ kind: 'regex', text: 'ab' }, [idOf('a')]);
    expect(texts(matcher)).toEqual(['b']);
    const done = await pool!.open({ kind: 'regex', text: 'ab' }, [idOf('a'), idOf('b'), EOS]);
    expect(done.state).toEqual({ mask: undefined, finished: true });
    const wrong = pool!.open({ kind: 'regex', text: 'ab' }, [idOf('b')]);
    await expect(wrong).rejects.toMatchObject({ code: 'internal', message: expect.stringMatching(/does not match/) });
  });

  it('refuses an id that may not come, and stays where it was', async () => {
    const matcher = await newPool().open({ kind: 'regex', text: 'ab' }, []);
    await expect(matcher.accept(idOf('b'))).rejects.toMatchObject({ code: 'internal' });
  });

  it('never allows a special token but the end, nor an id that the model has no text for', async () => {
    pool = new GrammarPool(grammarVocabulary(tokens, 600, [EOS]), start);
    const matcher = await pool.open(
      { kind: 'structural_tag', text: '{"type":"structural_tag","format":{"type":"any_text"}}' },
      [],
    );
    expect(matcher.state.mask).toHaveLength(Math.ceil(600 / 32));
    const ids = Array.from({ length: 608 }, (_, id) => id).filter(
      (id) => matcher.state.mask![id >> 5]! & (1 << (id & 31)),
    );
    expect(ids).toContain(EOS);
    expect(ids.filter((id) => id !== EOS && (id >= 512 || tokens.isSpecial(id)))).toEqual([]);
  });
});

describe('compiled constraints', () => {
  it('are shared, and no worker starts before the first', async () => {
    const { workers } = newPool();
    expect(workers).toBe(0);
    const matchers = await Promise.all(Array.from({ length: 20 }, () => pool!.open(LETTERS, [])));
    expect(started).toBe(1);
    for (const matcher of matchers) await matcher.accept(idOf('a'));
    expect(new Set(matchers.map((matcher) => texts(matcher).join())).size).toBe(1);
  });

  it('of many kinds share few workers, also when they come again', async () => {
    newPool();
    const matchers: GrammarMatcher[] = [];
    for (let i = 0; i < 12; i++) matchers.push(await pool!.open({ kind: 'regex', text: `a{${i + 1}}` }, []));
    for (const [i, matcher] of matchers.entries()) {
      for (let n = 0; n <= i; n++) await matcher.accept(idOf('a'));
      expect(texts(matcher)).toEqual(['end']);
    }
    expect(pool!.workers).toBeLessThanOrEqual(4);
    for (const matcher of matchers) matcher.close();
    expect(pool!.workers).toBeLessThanOrEqual(2);
  });
});

describe('hostile constraints', () => {
  // One pool through all of them, and one neighbour.
  const shared = new GrammarPool(vocabulary, start, {
    compileMs: 1_000,
    acceptMs: 1_000,
    openMs: 1_000,
    maxHeapBytes: 128 * 2 ** 20,
  });
  let neighbour: GrammarMatcher;
  beforeAll(async () => {
    neighbour = await shared.open(LETTERS, []);
  });
  afterAll(() => shared.destroy());

  it.each(HOSTILE)('$name', { timeout: 30_000 }, async ({ constraint, refused }) => {
    const since = performance.now();
    const opening = shared.open(constraint, []).then(
      (matcher) => matcher,
      (error: GrammarError) => error,
    );
    for (let i = 0; i < 3; i++) {
      const asked = performance.now();
      await neighbour.accept(idOf('a'));
      expect(texts(neighbour)).toEqual(['a', 'b', 'c', 'end']);
      expect(performance.now() - asked).toBeLessThan(1_000);
    }
    const outcome = await opening;
    expect(performance.now() - since).toBeLessThan(5_000);
    if (outcome instanceof GrammarError) {
      expect(outcome.code).toBe('invalid_argument');
      expect(outcome.message).toMatch(refused ?? new RegExp(`^${constraint.kind} is refused: `));
      expect(outcome.message.length).toBeLessThan(400);
      expect(outcome.message).not.toMatch(/\n|Aborted|\.cc/);
    } else {
      expect(refused).toBeUndefined();
      for (let i = 0; i < 20 && !outcome.state.finished; i++) {
        const next = allowed(outcome).at(-1)!;
        const failure = await outcome.accept(next).then(
          () => undefined,
          (error: GrammarError) => error,
        );
        if (failure !== undefined) {
          expect(failure.code).toBe('invalid_argument');
          break;
        }
      }
    }
    // Whatever became of it, its neighbour goes on, and others come.
    await neighbour.accept(idOf('b'));
    expect(texts(neighbour)).toEqual(['a', 'b', 'c', 'end']);
    const other = await shared.open(NUMBERS, []);
    expect(texts(other)).toEqual(['[']);
    other.close();
    if (!(outcome instanceof GrammarError)) outcome.close();
    expect(shared.workers).toBeLessThanOrEqual(3);
  });

  it('are remembered, so that the same one costs no worker again', async () => {
    newPool();
    const wrong: Constraint = { kind: 'ebnf_grammar', text: 'root ::= foo' };
    await expect(pool!.open(wrong, [])).rejects.toThrow('not defined');
    const before = started;
    for (let i = 0; i < 10; i++) await expect(pool!.open(wrong, [])).rejects.toThrow('not defined');
    expect(started).toBe(before);
  });

  it('that take too long to compile leave the others be', async () => {
    newPool({ compileMs: 300 });
    const neighbour = await pool!.open(LETTERS, []);
    const slow = pool!.open(DEAR, []);
    const after = pool!.open(NUMBERS, []);
    await expect(slow).rejects.toMatchObject({
      code: 'invalid_argument',
      message: 'regex is refused: it takes over 0.3 s to compile',
    });
    expect(texts(await after)).toEqual(['[']);
    await neighbour.accept(idOf('c'));
    expect(texts(neighbour)).toEqual(['a', 'b', 'c', 'end']);
  });
});

describe('an ordinary constraint opens in time', () => {
  const ordinary: Constraint = {
    kind: 'json_schema',
    text: '{"type":"object","properties":{"name":{"type":"string","maxLength":40}},"required":["name"]}',
  };
  const slow = (count: number) =>
    Array.from({ length: count }, (_, i): Constraint => ({ kind: 'regex', text: `x{${i}}${DEAR.text.repeat(2)}` }));
  /** Opens dear ones, then the ordinary one; how many of the dear ones were settled when that was open. */
  async function settledBefore(count: number): Promise<number> {
    let settled = 0;
    const dear = slow(count).map((constraint) =>
      pool!
        .open(constraint, [])
        .catch((error: GrammarError) => error)
        .then((outcome) => {
          settled++;
          return outcome;
        }),
    );
    expect(texts(await pool!.open(ordinary, []))).toContain('{');
    const before = settled;
    if (process.env.SHOAL_LONG === '1') expect(await dear[0]).not.toBeInstanceOf(GrammarError);
    pool!.destroy();
    await Promise.all(dear);
    return before;
  }

  // Each of the dear ones takes two seconds, twice what a worker takes to start on a busy machine; the ordinary one some milliseconds.
  it('whatever dear ones wait', async () => {
    newPool();
    expect(await settledBefore(8)).toBeLessThan(2);
  });

  it('where the dear ones look cheap', async () => {
    newPool({ dearCost: Number.POSITIVE_INFINITY, cheapMs: 600 });
    expect(await settledBefore(3)).toBeLessThan(3);
  });

  // At a second each, and none for the workers that are lost, it would be refused after 30 s.
  it.runIf(process.env.SHOAL_LONG === '1')(
    'where more of those look cheap than have 30 s',
    { timeout: 90_000 },
    async () => {
      newPool({ dearCost: Number.POSITIVE_INFINITY });
      expect(await settledBefore(40)).toBeLessThan(40);
    },
  );
});

it('what nobody waits for any more is not compiled', async () => {
  const compiled: string[] = [];
  pool = new GrammarPool(vocabulary, (onReport, onFailed) => {
    const worker = start(onReport, onFailed);
    const post: typeof worker.post = (command) => {
      const tasks = command.type === 'work' ? command.tasks : [];
      for (const task of tasks) if (task.op === 'compile') compiled.push(task.constraint.text);
      worker.post(command);
    };
    return { post, terminate: () => worker.terminate() };
  });
  let wanted = true;
  const open = (text: string) => pool!.open({ kind: 'regex', text }, [], () => wanted || text !== 'b');
  const [first, aborted, last] = [open('a'), open('b'), open('c')];
  wanted = false;
  await expect(aborted).rejects.toMatchObject({ code: 'internal' });
  expect([await first, await last].map(texts)).toEqual([['a'], ['c']]);
  expect(compiled).toEqual(['a', 'c']);
});

describe('a lost worker', () => {
  it('is replaced, and its matchers go on where they were', async () => {
    const lost: (() => void)[] = [];
    pool = new GrammarPool(vocabulary, (onReport, onFailed) => {
      lost.push(() => onFailed('it is gone'));
      return start(onReport, onFailed);
    });
    const matchers = await Promise.all(['a{3}', 'a{2}b'].map((text) => pool!.open({ kind: 'regex', text }, [])));
    for (const matcher of matchers) await matcher.accept(idOf('a'));
    for (const lose of lost.splice(0)) lose();
    for (const matcher of matchers) await matcher.accept(idOf('a'));
    expect(matchers.map(texts)).toEqual([['a'], ['b']]);
  });

  it('that never starts is an internal error', async () => {
    pool = new GrammarPool(vocabulary, (_, onFailed) => {
      setTimeout(() => onFailed('its script can not be loaded'), 1);
      return { post: () => {}, terminate: () => {} };
    });
    await expect(pool.open(LETTERS, [])).rejects.toMatchObject({
      code: 'internal',
      message: expect.stringMatching('script'),
    });
  });
});

it('ends with its workers and whoever waits', async () => {
  newPool();
  const waiting = pool!.open(LETTERS, []);
  const matcher = await pool!.open(NUMBERS, []);
  const slow = pool!.open(DEAR, []);
  pool!.destroy();
  await waiting;
  await expect(slow).rejects.toMatchObject({ code: 'internal' });
  await expect(matcher.accept(idOf('['))).rejects.toMatchObject({ code: 'internal' });
  await expect(pool!.open(LETTERS, [])).rejects.toMatchObject({ code: 'internal' });
});
