import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import golden from '../testing/golden/minilm/embeddings.json';
import { readPooling } from './sentence-transformers.ts';
import { readTokenizer } from './tokenizer.ts';

const read = (name: string) => {
  try {
    return readFileSync(new URL(`../../models/minilm/${name}`, import.meta.url), 'utf8');
  } catch {
    return undefined;
  }
};
const tokenizerJson = read('tokenizer.json');

describe.skipIf(tokenizerJson === undefined)('all-MiniLM-L6-v2 (fetched by npm run model:minilm)', () => {
  test('texts become the reference ids: tokenizer.json cuts and pads to 128, and neither is done', () => {
    expect(JSON.parse(tokenizerJson!)).toMatchObject({ truncation: { max_length: 128 }, padding: { pad_id: 0 } });
    const tokenizer = readTokenizer(tokenizerJson!, read('tokenizer_config.json')!, 'minilm');
    for (const { text, ids } of golden.cases) {
      expect(tokenizer.encode(text)).toEqual(ids);
      expect(tokenizer.encodeTyped(text)).toEqual({ ids, typeIds: ids.map(() => 0) });
    }
  });

  test('its files say mean, normalised, 256 ids', async () => {
    const pooling = await readPooling(async (name) => read(name), 384);
    expect(pooling).toEqual({ kind: 'mean', normalised: true, maxLength: 256 });
  });
});
