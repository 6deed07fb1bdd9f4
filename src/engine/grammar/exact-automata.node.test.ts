import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { readTokenBytes } from '../../checkpoint/token-bytes.ts';
import { Random } from '../../gpu/testing/random.ts';
import { nodeGrammarWorkers } from '../../testing/grammar-worker.node.ts';
import type { GrammarError } from '../grammars.ts';
import type { Constraint } from '../request.ts';
import { withoutMerging } from './exact-automata.ts';
import { GrammarPool } from './grammar-pool.ts';
import { grammarVocabulary } from './grammar-vocabulary.ts';
import { randomWalk } from './testing/random-walk.ts';

const EOS = 2;
const tokens = readTokenBytes(await readFile('models/stories260K/tokenizer.json', 'utf8'), 'tokenizer.json');
const pool = new GrammarPool(grammarVocabulary(tokens, 512, [EOS]), await nodeGrammarWorkers(), {
  acceptMs: 1_000,
  openMs: 1_000,
});
afterAll(() => pool.destroy());

/** What random walks finish with. */
async function finished(constraint: Constraint, walks: number, seed: number): Promise<string[]> {
  const random = new Random(seed);
  const texts: string[] = [];
  for (let i = 0; i < walks; i++) {
    const matcher = await pool.open(constraint, []);
    const output = await randomWalk(matcher, tokens, 512, EOS, () => random.uniform());
    matcher.close();
    if (output !== undefined) texts.push(new TextDecoder().decode(output));
  }
  return texts;
}

/** One token a character. */
const idsOf = (text: string) =>
  [...new TextEncoder().encode(text)].map(
    (byte) => Array.from({ length: 512 }, (_, id) => id).find((id) => [...tokens.bytes(id)].join() === String(byte))!,
  );

const WORDS = ['cdx', 'abx', 'abz'];
const HALVES = Array.from({ length: 500 }, (_, i) => String((i - 30) / 2));

it.each<[string, Constraint, readonly string[]]>([
  ['alternatives of a grammar', { kind: 'ebnf_grammar', text: 'root ::= "cdx" | "abx" | "abz"' }, WORDS],
  ['alternatives of a regex', { kind: 'regex', text: WORDS.join('|') }, WORDS],
  ['values of an enum', { kind: 'json_schema', text: JSON.stringify({ enum: WORDS }) }, WORDS.map((w) => `"${w}"`)],
  ['many numbers', { kind: 'json_schema', text: JSON.stringify({ enum: HALVES.map(Number) }) }, HALVES],
])('%s are all there is', async (_, constraint, all) => {
  const texts = await finished(constraint, 100, 1);
  expect(texts.filter((text) => !all.includes(text))).toEqual([]);
  expect(texts.length).toBeGreaterThan(50);
  for (const text of all.slice(0, 20)) {
    const matcher = await pool.open(constraint, [...idsOf(text), EOS]);
    expect(matcher.state.finished).toBe(true);
    matcher.close();
  }
});

it.each(['a*acd', '[a-c]*[a-c]de', 'x[a-c]*[a-c]de', '(a+b)*c', '(a*b*)*c'])(
  '%s is met by what is finished',
  async (text) => {
    const texts = await finished({ kind: 'regex', text }, 60, 2);
    expect(texts.filter((each) => !new RegExp(`^(?:${text})$`).test(each))).toEqual([]);
  },
);

/** A regular expression, and where in a text it may end that begins at one of some places. */
interface Known {
  readonly text: string;
  ends(text: string, starts: ReadonlySet<number>): Set<number>;
}

/** `bounds`: a count as it is written, and the least and most of it. JavaScript's own expressions may take for ever. */
function repeated(one: Known, [written, least, most]: readonly [string, number, number]): Known {
  return {
    text: `(${one.text})${written}`,
    ends(text, starts) {
      let at = new Set(starts);
      for (let i = 0; i < least; i++) at = one.ends(text, at);
      const all = new Set(at);
      for (let i = least, size = -1; i < most && size !== all.size; i++) {
        size = all.size;
        at = one.ends(text, at);
        for (const end of at) all.add(end);
      }
      return all;
    },
  };
}

const { regex } = fc.letrec<{ regex: Known }>((tie) => ({
  regex: fc.oneof(
    { depthSize: 'medium', withCrossShrink: true },
    fc.constantFrom<[string, string]>(['a', 'a'], ['b', 'b'], ['c', 'c'], ['[ab]', 'ab'], ['[b-d]', 'bcd']).map(
      ([text, chars]): Known => ({
        text,
        ends: (of, starts) =>
          new Set([...starts].filter((at) => at < of.length && chars.includes(of[at]!)).map((at) => at + 1)),
      }),
    ),
    fc.array(tie('regex'), { minLength: 2, maxLength: 3 }).map(
      (all): Known => ({
        text: all.map(({ text }) => text).join(''),
        ends: (text, starts) => all.reduce((at, one) => one.ends(text, at), new Set(starts)),
      }),
    ),
    fc.array(tie('regex'), { minLength: 2, maxLength: 4 }).map(
      (all): Known => ({
        text: `(${all.map(({ text }) => text).join('|')})`,
        ends: (text, starts) => new Set(all.flatMap((one) => [...one.ends(text, starts)])),
      }),
    ),
    fc
      .tuple(
        tie('regex'),
        fc.constantFrom<[string, number, number]>(
          ['*', 0, Infinity],
          ['+', 1, Infinity],
          ['?', 0, 1],
          ['{2}', 2, 2],
          ['{1,3}', 1, 3],
        ),
      )
      .map(([one, bounds]) => repeated(one, bounds)),
  ),
}));

it('what is finished by a random regex matches it', async () => {
  let count = 0;
  const property = fc.asyncProperty(regex, fc.nat(), async ({ text, ends }, seed) => {
    // Repetitions of repetitions may take too long to follow.
    const texts = await finished({ kind: 'regex', text }, 6, seed).catch((error: GrammarError) => {
      expect(error.message).toMatch(/it takes over/);
      return [];
    });
    count += texts.length;
    expect(texts.filter((each) => !ends(each, new Set([0])).has(each.length))).toEqual([]);
  });
  const runs = process.env.SHOAL_LONG === '1' ? 1_000 : 80;
  await fc.assert(property, { numRuns: runs, endOnFailure: true });
  expect(count).toBeGreaterThan(runs * 3);
}, 900_000);

it('code of another version is not touched', () => {
  expect(() => withoutMerging(new Uint8Array(100))).toThrow(/another version/);
});
