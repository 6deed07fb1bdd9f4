import type { TokenizerMetadata } from './open-tokenizer.ts';

const printable = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
let extra = 0;
/** GPT-2's characters for bytes, by byte. */
export const ALPHABET = Array.from({ length: 256 }, (_, byte) =>
  String.fromCodePoint(printable(byte) ? byte : 256 + extra++),
);

const REST = ALPHABET.filter((char) => !'abĠ'.includes(char));

/** Two letters, two merges, the space, the rest of the alphabet, a special, a user-defined and a plain token. */
export const TOKENS = ['a', 'b', 'ab', 'Ġ', 'Ġab', ...REST, '<|end|>', '  ', 'plain'];

/** Id of the special token. */
export const END = TOKENS.indexOf('<|end|>');

/** A byte-level tokenizer of these. */
export const byteLevel: TokenizerMetadata = {
  model: 'gpt2',
  pre: 'gpt-2',
  tokens: TOKENS,
  merges: ['a b', 'Ġ ab'],
  token_type: Int32Array.from(TOKENS, (token) => (token === '<|end|>' ? 3 : token === '  ' ? 4 : 1)),
  eos_token_id: END,
};
