import { describe, expect, it } from 'vitest';
import { CheckpointError } from './checkpoint.ts';
import { byteLevel } from './testing/byte-level.ts';
import { openTokenizer, type TokenizerMetadata, tokenizerOf } from './testing/open-tokenizer.ts';

const spmTokens = ['<unk>', '<s>', '</s>', '<0x41>', '<0x42>', '▁', 'a', 'b', 'ab', '▁ab', '▁▁', 'longer'];
const spm: TokenizerMetadata = {
  model: 'llama',
  pre: 'default',
  tokens: spmTokens,
  token_type: Int32Array.of(2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 4, 5),
  scores: Float32Array.of(0, 0, 0, 0, 0, -9, -8, -7, -1, -2, 0, -3),
  bos_token_id: 1,
  eos_token_id: 2,
  unknown_token_id: 0,
};

describe('SentencePiece BPE', () => {
  it('merges the best piece first, falls back to bytes, and marks spaces', async () => {
    const files = await openTokenizer(spm);
    const { encode } = tokenizerOf(files);
    expect(encode('ab')).toEqual([1, 9]);
    expect(encode('AB')).toEqual([1, 5, 3, 4]);
    // Two spaces are a user-defined token, which the file writes with the mark.
    expect(encode('a  b</s>')).toEqual([1, 5, 6, 10, 5, 7, 2]);
    const bytes = files.tokens;
    expect([3, 9, 10].map((id) => new TextDecoder().decode(bytes.bytes(id)))).toEqual(['A', ' ab', '  ']);
    expect(spmTokens.map((_, id) => bytes.isSpecial(id)).lastIndexOf(true)).toBe(2);
    expect(bytes.stripStart).toBe(1);
    expect(JSON.parse(files.tokenizerJson()).model.merges).toEqual(['a b', '▁ ab']);
  });

  it('leaves the first space out where the file says so', async () => {
    const files = await openTokenizer({ ...spm, add_space_prefix: false, add_bos_token: false });
    expect(tokenizerOf(files).encode('ab ab')).toEqual([8, 9]);
    expect(files.tokens.stripStart).toBe(0);
  });

  it('takes an end for special, whatever its type', async () => {
    expect((await openTokenizer({ ...spm, eot_token_id: 11 })).tokens.isSpecial(11)).toBe(true);
  });
});

it('writes names of special tokens and the chat template', async () => {
  const template = "{{ messages[0]['content'] }}";
  const files = await openTokenizer({
    ...spm,
    padding_token_id: 2,
    '.chat_template': template,
    '.chat_template.tool_use': 'x',
  });
  expect(JSON.parse(files.tokenizerConfigJson())).toEqual({
    tokenizer_class: 'PreTrainedTokenizerFast',
    ...{ bos_token: '<s>', eos_token: '</s>', unk_token: '<unk>', pad_token: '</s>' },
    ...{ add_bos_token: true, add_eos_token: false, clean_up_tokenization_spaces: false, chat_template: template },
  });
});

it('takes 0xffffffff for no token', async () => {
  expect(
    JSON.parse((await openTokenizer({ ...spm, padding_token_id: 0xffffffff })).tokenizerConfigJson()),
  ).not.toHaveProperty('pad_token');
});

it.each<[string, TokenizerMetadata, RegExp]>([
  ['no tokenizer', { ...spm, model: undefined }, /tokenizer\.ggml\.model is missing/],
  ['another tokenizer', { ...spm, model: 't5' }, /tokenizer\.ggml\.model is t5; known: llama, gpt2, bert/],
  [
    'another pre-tokenizer',
    { ...byteLevel, pre: 'deepseek-v3' },
    /tokenizer\.ggml\.pre is deepseek-v3; known: .*smollm/,
  ],
  ['an inherited pre-tokenizer', { ...byteLevel, pre: 'toString' }, /tokenizer\.ggml\.pre is toString; known/],
  ['no tokens', { ...spm, tokens: undefined }, /tokenizer\.ggml\.tokens is missing/],
  ['a token twice', { ...spm, tokens: spmTokens.with(8, 'a') }, /tokens has "a" twice, as 6 and 8/],
  ['too few types', { ...spm, token_type: Int32Array.of(1) }, /token_type has 1 types for 12/],
  [
    'an unknown type',
    { ...spm, token_type: Int32Array.of(2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 4, 7) },
    /token_type is 7 for token 11/,
  ],
  ['no scores', { ...spm, scores: undefined }, /scores is missing/],
  ['too few scores', { ...spm, scores: Float32Array.of(1) }, /scores has 1 scores for 12/],
  [
    'a score that is none',
    { ...spm, scores: new Float32Array(12).fill(Number.NaN) },
    /scores has no finite number for token 5/,
  ],
  [
    'an endless piece',
    { ...spm, tokens: spmTokens.with(9, 'a'.repeat(5000)) },
    /tokens has a piece of 5000 characters, token 9/,
  ],
  ['a BOS out of range', { ...spm, bos_token_id: 12 }, /bos_token_id is 12 of 12 tokens/],
  ['a BOS that is no id', { ...spm, add_bos_token: true, bos_token_id: undefined }, /add_bos_token asks for a token/],
  ['no merges', { ...byteLevel, merges: undefined }, /merges is missing/],
  ['a merge of three', { ...byteLevel, merges: ['a b a'] }, /merges has "a b a" at 0/],
  ['a merge of none', { ...byteLevel, merges: ['a b', 'a x'] }, /merges has "a x" at 1/],
  ['a template that is no text', { ...spm, '.chat_template': 5 }, /tokenizer\.chat_template is "5", not a text/],
])('refuses %s', async (_, metadata, reason) => {
  const error = await openTokenizer(metadata)
    .then((files) => files.tokenizerJson())
    .then(
      () => undefined,
      (e: unknown) => e,
    );
  expect(error).toBeInstanceOf(CheckpointError);
  expect((error as Error).message).toMatch(/^m\.gguf: /);
  expect((error as Error).message).toMatch(reason);
});
