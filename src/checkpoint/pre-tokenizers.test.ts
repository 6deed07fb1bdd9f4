import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { describe, expect, it } from 'vitest';
import { ALPHABET, byteLevel, END, TOKENS } from './testing/byte-level.ts';
import { openTokenizer, type TokenizerMetadata, tokenizerOf } from './testing/open-tokenizer.ts';

describe('byte-level BPE', () => {
  it('merges, and finds special and user-defined tokens in the text', async () => {
    const files = await openTokenizer(byteLevel);
    const { encode } = tokenizerOf(files);
    expect(encode('ab ab')).toEqual([2, 4]);
    expect(encode('ab<|end|>  b')).toEqual([2, END, END + 1, 1]);
    const bytes = files.tokens;
    expect([4, END, END + 1].map((id) => new TextDecoder().decode(bytes.bytes(id)))).toEqual([' ab', '<|end|>', '  ']);
    expect([0, END, END + 1, END + 2].map((id) => bytes.isSpecial(id))).toEqual([false, true, false, false]);
    expect(bytes.vocabSize).toBe(TOKENS.length);
  });

  it('gives back the bytes of any text', async () => {
    const files = await openTokenizer(byteLevel);
    const bytes = files.tokens;
    const text = ' ab\u0000é🦈\ufeff  ½\n';
    const joined = tokenizerOf(files)
      .encode(text)
      .flatMap((id) => [...bytes.bytes(id)]);
    expect(new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(joined))).toBe(text);
  });

  it('puts BOS and EOS where the file, or else its kind of tokenizer, says', async () => {
    const ids = async (change: TokenizerMetadata) => {
      const tokenizer = tokenizerOf(await openTokenizer({ ...byteLevel, ...change }));
      expect(tokenizer.encodeBare('ab')).toEqual([2]);
      return tokenizer.encode('ab');
    };
    const bos = { bos_token_id: END };
    expect(await ids(bos)).toEqual([2]);
    expect(await ids({ ...bos, add_bos_token: true })).toEqual([END, 2]);
    expect(await ids({ add_eos_token: true })).toEqual([2, END]);
    expect(await ids({ ...bos, pre: 'llama-bpe' })).toEqual([END, 2]);
    expect(await ids({ ...bos, pre: 'llama-bpe', add_bos_token: false })).toEqual([2]);
  });

  it('takes whole words before merges where the pre-tokenizer says so', async () => {
    expect(tokenizerOf(await openTokenizer({ ...byteLevel, pre: 'llama-bpe' })).encode('plain')).toEqual([END + 2]);
    expect(tokenizerOf(await openTokenizer(byteLevel)).encode('plain')).toHaveLength(5);
  });

  it('composes characters where the model was trained so', async () => {
    const ids = async (pre: string, text: string) =>
      tokenizerOf(await openTokenizer({ ...byteLevel, pre })).encode(text);
    expect(await ids('qwen2', 'e\u0301')).toEqual(await ids('qwen2', 'é'));
    expect(await ids('gpt-2', 'e\u0301')).not.toEqual(await ids('gpt-2', 'é'));
  });

  const text = "I'LL pay  $1234.50 ½²\r\n\tok—\u0085x_y <=> y12345 don't";
  it.each<[string, string]>([
    ['gpt-2', "I¦'¦LL¦ pay¦ ¦ $¦1234¦.¦50¦ ½²¦\r\n¦\t¦ok¦—¦\u0085¦x¦_¦y¦ <=>¦ y¦12345¦ don¦'t"],
    ['smollm', "I¦'¦LL¦ pay¦ ¦ $¦1¦2¦3¦4¦.¦5¦0¦ ¦½¦²¦\r\n¦\t¦ok¦—¦\u0085¦x¦_¦y¦ <=>¦ y¦1¦2¦3¦4¦5¦ don¦'t"],
    ['llama-bpe', "I¦'LL¦ pay¦ ¦ $¦123¦4¦.¦50¦ ¦½²¦\r\n¦\tok¦—¦\u0085x¦_y¦ <=>¦ y¦123¦45¦ don¦'t"],
    ['qwen2', "I¦'LL¦ pay¦ ¦ $¦1¦2¦3¦4¦.¦5¦0¦ ¦½¦²¦\r\n¦\tok¦—¦\u0085x¦_y¦ <=>¦ y¦1¦2¦3¦4¦5¦ don¦'t"],
    ['refact', "I¦'¦LL¦ pay¦ ¦ $¦1¦2¦3¦4¦.¦5¦0¦ ¦½¦²¦\r\n¦\t¦ok¦—¦\u0085¦x¦_¦y¦ <=>¦ y¦1¦2¦3¦4¦5¦ don¦'t"],
    ['olmo', "I¦'¦LL¦ pay¦ ¦ $¦1234¦.¦50¦ ½²¦\r\n¦\t¦ok¦—¦\u0085¦x¦_¦y¦ <=>¦ y¦12345¦ don¦'t"],
    ['dbrx', "I¦'LL¦ pay¦ ¦ $¦123¦4¦.¦50¦ ¦½²¦\r\n¦\tok¦—¦\u0085x¦_y¦ <=>¦ y¦123¦45¦ don¦'t"],
    ['gpt-4o', "I'LL¦ pay¦ ¦ $¦123¦4¦.¦50¦ ¦½²¦\r\n¦\tok¦—¦\u0085x¦_y¦ <=>¦ y¦123¦45¦ don't"],
    ['tekken', "I¦'LL¦ pay¦ ¦ $¦1¦2¦3¦4¦.¦5¦0¦ ¦½¦²¦\r\n¦\tok¦—¦\u0085x¦_y¦ <=>¦ y¦1¦2¦3¦4¦5¦ don¦'t"],
    ['default', "I¦'¦LL¦ pay¦  ¦$¦123¦4¦.¦50¦ ¦½²¦\r\n¦\t¦ok¦—¦\u0085¦x¦_¦y¦ ¦<=>¦ y¦123¦45¦ don¦'¦t"],
  ])('cuts a text in words: %s', async (pre, list) => {
    // What none of the texts holds.
    const words = list.split('¦');
    const { tokenizerJson, tokenizerConfigJson } = await openTokenizer({ ...byteLevel, pre });
    const tokenizer = new HuggingFaceTokenizer(JSON.parse(tokenizerJson()), JSON.parse(tokenizerConfigJson()));
    const byteOf = new Map(ALPHABET.map((char, byte) => [char, byte]));
    const read = (word: string) => new TextDecoder().decode(Uint8Array.from(word, (char) => byteOf.get(char)!));
    expect((tokenizer.pre_tokenizer!(text) as string[]).map(read)).toEqual(words);
    expect(words.join('')).toBe(text);
  });

  it.each([
    ['tekken', ['Hello', 'WORLDs', ' i', 'Phone', 'Éa']],
    ['gpt-4o', ['Hello', 'WORLDs', ' i', 'Phone', 'Éa']],
    ['dbrx', ['HelloWORLDs', ' iPhoneÉa']],
  ])('cuts between words of small and of capital letters, or not: %s', async (pre, words) => {
    const { tokenizerJson, tokenizerConfigJson } = await openTokenizer({ ...byteLevel, pre });
    const tokenizer = new HuggingFaceTokenizer(JSON.parse(tokenizerJson()), JSON.parse(tokenizerConfigJson()));
    const byteOf = new Map(ALPHABET.map((char, byte) => [char, byte]));
    const read = (word: string) => new TextDecoder().decode(Uint8Array.from(word, (char) => byteOf.get(char)!));
    expect((tokenizer.pre_tokenizer!(words.join('')) as string[]).map(read)).toEqual(words);
  });

  it.each([
    ['llama3', 'llama-bpe'],
    ['llama-v3', 'llama-bpe'],
    ['falcon3', 'llama-bpe'],
    ['pixtral', 'llama-bpe'],
    ['smaug-bpe', 'dbrx'],
    ['phi-2', 'gpt-2'],
    ['megrez', 'qwen2'],
  ])('knows %s for %s', async (alias, name) => {
    const of = async (pre: string) => (await openTokenizer({ ...byteLevel, bos_token_id: END, pre })).tokenizerJson();
    expect(await of(alias)).toBe(await of(name));
  });

  it('cuts as Qwen 2 does for the models distilled into it, and leaves characters as they are', async () => {
    const of = async (pre: string) => JSON.parse((await openTokenizer({ ...byteLevel, pre })).tokenizerJson());
    expect(await of('deepseek-r1-qwen')).toEqual({ ...(await of('qwen2')), normalizer: null });
  });

  it('takes "default" where the file names none', async () => {
    expect((await openTokenizer({ ...byteLevel, pre: undefined })).tokenizerJson()).toBe(
      (await openTokenizer({ ...byteLevel, pre: 'default' })).tokenizerJson(),
    );
  });
});
