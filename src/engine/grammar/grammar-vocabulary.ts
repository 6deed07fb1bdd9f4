import type { TokenBytes } from '../../checkpoint/token-bytes.ts';
import type { Vocabulary } from './grammar-messages.ts';

/**
 * The vocabulary of constrained outputs: special tokens have no text in it, so that they never come but where a stop id
 * ends the output. `vocabSize`: logits of one position.
 */
export function grammarVocabulary(tokens: TokenBytes, vocabSize: number, stopIds: readonly number[]): Vocabulary {
  const ends = new Uint32Array(Math.min(tokens.vocabSize, vocabSize));
  const texts = Array.from(ends, (_, id) => (tokens.isSpecial(id) ? new Uint8Array(0) : tokens.bytes(id)));
  let length = 0;
  for (const [id, text] of texts.entries()) {
    length += text.length;
    ends[id] = length;
  }
  const bytes = new Uint8Array(length);
  for (const [id, text] of texts.entries()) bytes.set(text, ends[id]! - text.length);
  return { bytes, ends, vocabSize, stopIds: stopIds.filter((id) => id < ends.length) };
}
