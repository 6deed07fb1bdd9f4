import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import tokenizerJson from '../../models/stories260K/tokenizer.json?raw';
import tokenizerConfigJson from '../../models/stories260K/tokenizer_config.json?raw';
import cases from '../testing/golden/stories260K-cases.json';
import reference from '../testing/golden/stories260K-reference.json';
import { Detokenizer } from './detokenizer.ts';
import { readTokenBytes } from './token-bytes.ts';
import { readTokenizer } from './tokenizer.ts';

const tokens = readTokenBytes(tokenizerJson, 'tokenizer.json');
const tokenizer = readTokenizer(tokenizerJson, tokenizerConfigJson, 'stories260K');

function decode(ids: readonly number[], skipSpecialTokens = true): string {
  const detokenizer = new Detokenizer(tokens, { skipSpecialTokens });
  return ids.map((id) => detokenizer.push(id)).join('') + detokenizer.finish();
}

describe('stories260K', () => {
  it('decodes the reference ids to the reference text', () => {
    expect(decode(reference.greedy_ids_from_bos)).toBe(reference.text);
  });

  it('encodes every prompt of the cases as the reference does, with and without BOS', () => {
    for (const { prompt, bos, ids } of cases.cases) {
      expect(bos ? tokenizer.encode(prompt) : tokenizer.encodeBare(prompt)).toEqual(ids);
    }
  });

  it('decodes every greedy continuation as the reference does', () => {
    for (const { ids, greedy, greedy_text } of cases.cases) expect(decode([...ids, ...greedy])).toBe(greedy_text);
  });

  it('keeps or leaves out special tokens', () => {
    expect(decode([1, 403, 2], false)).toBe(`<s>${new TextDecoder().decode(tokens.bytes(403))}</s>`);
    expect(decode([1, 2])).toBe('');
  });

  it('gives back any text that its own encoder took, byte by byte', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), (text) => {
        // ▁ is the tokenizer's own sign for a space; these texts of requests hold no special tokens.
        fc.pre(!text.includes('▁') && !/<(unk|s|\/s)>/.test(text));
        expect(decode(tokenizer.encode(text))).toBe(text);
      }),
      { numRuns: 300 },
    );
  });

  it('holds a character back until its last byte is there', () => {
    const ids = tokenizer.encodeBare('🦈');
    const detokenizer = new Detokenizer(tokens, { skipSpecialTokens: true });
    const pieces = ids.map((id) => detokenizer.push(id));
    expect(ids.length).toBeGreaterThan(2);
    expect(pieces.slice(0, -1).join('').trim()).toBe('');
    expect(pieces.join('')).toBe('🦈');
  });

  it('replaces a character that never became whole', () => {
    const bytes = tokenizer.encodeBare('🦈').slice(-4);
    expect(decode(bytes)).toBe('🦈');
    expect(decode(bytes.slice(0, 3))).toBe('�');
  });
});

it('reads the byte-level family', () => {
  const json = JSON.stringify({
    model: { vocab: { Ġhello: 0, 'âĤ¬': 1, Ċ: 2 } },
    decoder: { type: 'ByteLevel' },
    added_tokens: [{ id: 3, content: '<|end|>', special: true }],
  });
  const bytes = readTokenBytes(json, 'tokenizer.json');
  const text = (id: number) => new TextDecoder().decode(bytes.bytes(id));
  expect([0, 1, 2, 3, 4].map(text)).toEqual([' hello', '€', '\n', '<|end|>', '']);
});

it('refuses a decoder it does not know, by name', () => {
  const json = JSON.stringify({ model: { vocab: { a: 0 } }, decoder: { type: 'CTC' } });
  expect(() => readTokenBytes(json, 'tokenizer.json')).toThrow(/tokenizer\.json.*CTC/);
});

describe("families' tokenizers", () => {
  const toSpace = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
  const pieces = { '<bos>': 0, '▁': 1, '▁a': 2, b: 3, '<0xF0>': 4, '<0x9F>': 5, '<0xA6>': 6, '<0x88>': 7 };
  const added = [
    { id: 0, content: '<bos>', special: true },
    { id: 8, content: '▁▁', special: false },
    { id: 9, content: '\n\n', special: false },
  ];
  const decodeWith = (decoder: object, ids: readonly number[]) => {
    const json = JSON.stringify({ model: { vocab: pieces }, decoder, added_tokens: added });
    const detokenizer = new Detokenizer(readTokenBytes(json, 'tokenizer.json'), { skipSpecialTokens: true });
    return ids.map((id) => detokenizer.push(id)).join('') + detokenizer.finish();
  };
  const ids = [0, 2, 3, 8, 3, 9, 1, 4, 5, 6, 7, 2];

  it('decodes Gemma: no space before a text, runs of spaces and lines are tokens of their own', () => {
    const decoder = { type: 'Sequence', decoders: [toSpace, { type: 'ByteFallback' }, { type: 'Fuse' }] };
    expect(decodeWith(decoder, ids)).toBe(' ab  b\n\n 🦈 a');
  });

  it('decodes Phi-3 and Mistral: a space before a text is none', () => {
    const strip = { type: 'Strip', content: ' ', start: 1, stop: 0 };
    const decoder = { type: 'Sequence', decoders: [toSpace, { type: 'ByteFallback' }, { type: 'Fuse' }, strip] };
    expect(decodeWith(decoder, ids)).toBe('ab  b\n\n 🦈 a');
  });
});
