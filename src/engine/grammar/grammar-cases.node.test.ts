import { readFile } from 'node:fs/promises';
import { afterAll, expect, it } from 'vitest';
import { readTokenBytes } from '../../checkpoint/token-bytes.ts';
import { nodeGrammarWorkers } from '../../testing/grammar-worker.node.ts';
import { GrammarPool } from './grammar-pool.ts';
import { grammarVocabulary } from './grammar-vocabulary.ts';
import { CONSTRAINED_CASES } from './testing/constrained-cases.ts';
import { judge } from './testing/judge.ts';
import { randomWalk } from './testing/random-walk.ts';

const VOCAB = 512;
const EOS = 2;
const WALKS = process.env.SHOAL_LONG ? 100 : 8;
const tokens = readTokenBytes(await readFile('models/stories260K/tokenizer.json', 'utf8'), 'tokenizer.json');
const pool = new GrammarPool(grammarVocabulary(tokens, VOCAB, [EOS]), await nodeGrammarWorkers());
afterAll(() => pool.destroy());

it.each(CONSTRAINED_CASES)('$constraint.kind, $name: every finished output is right', async (each) => {
  const random = generator(each.constraint.text.length);
  let finished = 0;
  for (let walk = 0; walk < WALKS; walk++) {
    const matcher = await pool.open(each.constraint, []);
    const output = await randomWalk(matcher, tokens, VOCAB, EOS, random);
    matcher.close();
    if (output === undefined) continue;
    finished++;
    expect(judge(each, output)).toBeUndefined();
  }
  expect(finished).toBeGreaterThan(WALKS / 2);
});

/** Mulberry32. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
