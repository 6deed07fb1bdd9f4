import { readFile } from 'node:fs/promises';
import { afterEach, expect, it } from 'vitest';
import { readTokenBytes } from '../../checkpoint/token-bytes.ts';
import { nodeGrammarWorkers } from '../../testing/grammar-worker.node.ts';
import { GrammarPool } from './grammar-pool.ts';
import { grammarVocabulary } from './grammar-vocabulary.ts';

const tokens = readTokenBytes(await readFile('models/stories260K/tokenizer.json', 'utf8'), 'tokenizer.json');
const start = await nodeGrammarWorkers();
let pool: GrammarPool;
afterEach(() => pool.destroy());

it('x', async () => {
  pool = new GrammarPool(grammarVocabulary(tokens, 512, [2]), start);
  const t = performance.now();
  const m = await pool.open(
    { kind: 'json_schema', text: '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}' },
    [],
  );
  console.log(performance.now() - t, m.state);
  const ids = [...Array(512).keys()].filter((i) => m.state.mask![i >> 5]! & (1 << (i & 31)));
  console.log(ids.map((i) => [i, new TextDecoder().decode(tokens.bytes(i))]));
  await expect(pool.open({ kind: 'regex', text: '(' }, [])).rejects.toThrow('zz');
});
