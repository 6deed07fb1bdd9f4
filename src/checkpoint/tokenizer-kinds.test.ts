import { describe, expect, test } from 'vitest';
import golden from '../testing/golden/tokenizer-kinds.json' with { type: 'json' };
import { Detokenizer } from './detokenizer.ts';
import { readTokenBytes } from './token-bytes.ts';
import { readTokenizer } from './tokenizer.ts';

/** Small tokenizers in the form that released ones have, with what https://github.com/huggingface/tokenizers makes of texts. */
interface Kinds {
  readonly models: Readonly<Record<string, object>>;
  readonly kinds: readonly Kind[];
}

interface Kind {
  readonly name: string;
  /** Whose tokenizer.json is like it. */
  readonly like: string;
  readonly model: string;
  readonly change: object;
  /** Of tokenizer.json, beside the model. */
  readonly parts: { readonly decoder: { readonly type: string }; readonly post_processor?: { readonly type: string } };
  /** A text, its ids, and what these without special tokens are decoded to. */
  readonly cases: readonly (readonly [string, readonly number[], string])[];
  /** Of "Hello" and "world" together. */
  readonly pair: { readonly ids: readonly number[]; readonly types: readonly number[] };
}

const { models, kinds } = golden as unknown as Kinds;
const EMPTY = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };

describe.each(kinds)('$name: $like', ({ model, change, parts, cases, pair }) => {
  const json = JSON.stringify({ version: '1.0', ...EMPTY, ...parts, model: { ...models[model], ...change } });
  const tokenizer = readTokenizer(json, '{}', 'm');

  test('makes the ids of the reference', () => {
    for (const [text, ids] of cases) expect([text, tokenizer.encode(text)]).toEqual([text, ids]);
  });

  // Only encoders have it, whose ids are never decoded.
  test.skipIf(parts.decoder.type === 'WordPiece')('gives its texts back, token by token', () => {
    const bytes = readTokenBytes(json, 'tokenizer.json');
    for (const [text, , decoded] of cases) {
      const detokenizer = new Detokenizer(bytes, { skipSpecialTokens: true });
      const pieces = tokenizer.encodeBare(text).map((id) => detokenizer.push(id));
      expect([text, pieces.join('') + detokenizer.finish()]).toEqual([text, decoded]);
    }
  });

  test.runIf(parts.post_processor?.type === 'TemplateProcessing')('puts two texts together', () => {
    expect(tokenizer.encodeTyped('Hello', 'world')).toEqual({ ids: pair.ids, typeIds: pair.types });
  });
});
