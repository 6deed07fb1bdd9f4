import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { CheckpointError } from './checkpoint.ts';

/** Text to ids. */
export interface Tokenizer {
  /** Ids of a text, with the special tokens (BOS) that the tokenizer's own post-processor adds. */
  encode(text: string): number[];
  /** Ids of a text alone. */
  encodeBare(text: string): number[];
}

/** Reads tokenizer.json and tokenizer_config.json. Throws CheckpointError naming `folder`. */
export function readTokenizer(tokenizerJson: string, tokenizerConfigJson: string, folder: string): Tokenizer {
  let tokenizer: HuggingFaceTokenizer;
  try {
    tokenizer = new HuggingFaceTokenizer(JSON.parse(tokenizerJson), JSON.parse(tokenizerConfigJson));
  } catch (error) {
    throw new CheckpointError(`${folder}: the tokenizer can't be read (${(error as Error).message})`);
  }
  return {
    encode: (text) => tokenizer.encode(text).ids,
    encodeBare: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
  };
}
