import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { CheckpointError } from './checkpoint.ts';

/** Text to ids. */
export interface Tokenizer {
  /** Ids of a text, with the special tokens (BOS) that the tokenizer's own post-processor adds. */
  encode(text: string): number[];
  /** Ids of a text alone. */
  encodeBare(text: string): number[];
  /** Ids and token types, as the post-processor makes them: of a text, or of two that are looked at together. */
  encodeTyped(text: string, pair?: string): { readonly ids: number[]; readonly typeIds: number[] };
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
    encodeTyped(text, pair) {
      const encoded = tokenizer.encode(text, { text_pair: pair ?? null, return_token_type_ids: true });
      return { ids: encoded.ids, typeIds: encoded.token_type_ids };
    },
    encodeBare: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
  };
}
