import o200k from 'js-tiktoken/ranks/o200k_base';
import type { TokenBytes } from '../../src/checkpoint/token-bytes.ts';

/** The id that ends an output: of a single byte that no text has. */
export const STOP_ID = 0xff;
/** No token of a cut vocabulary has text with this character in it. */
export const UNWRITTEN = '~';

/** The first `vocabSize` ids of o200k_base: at 512 single bytes and the commonest pairs, at 152k what a large model has. */
export function cutVocabulary(vocabSize: number): TokenBytes {
  const texts: Uint8Array[] = [];
  for (const line of o200k.bpe_ranks.split('\n')) {
    const [, first, ...tokens] = line.split(' ');
    for (const [i, token] of tokens.entries()) {
      const id = Number(first) + i;
      if (id < vocabSize) texts[id] = Uint8Array.from(atob(token), (char) => char.charCodeAt(0));
    }
  }
  const unwritten = UNWRITTEN.charCodeAt(0);
  const special = Uint8Array.from({ length: vocabSize }, (_, id) =>
    Number(id === STOP_ID || (texts[id]?.includes(unwritten) ?? true)),
  );
  const none = new Uint8Array();
  return { vocabSize, bytes: (id) => texts[id] ?? none, isSpecial: (id) => special[id] === 1, stripStart: 0 };
}
