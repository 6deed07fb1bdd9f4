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
    const json = JSON.parse(tokenizerJson) as { pre_tokenizer?: PreTokenizerPart | null };
    const pre_tokenizer = json.pre_tokenizer && withAllDigits(json.pre_tokenizer);
    tokenizer = new HuggingFaceTokenizer({ ...json, pre_tokenizer }, JSON.parse(tokenizerConfigJson));
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

interface PreTokenizerPart {
  readonly type: string;
  readonly individual_digits?: boolean;
  readonly pretokenizers?: readonly PreTokenizerPart[];
}

/** Digits are all characters that are numeric, ½ and Ⅻ too; the port of the tokenizers knows 0 to 9. */
function withAllDigits(part: PreTokenizerPart): PreTokenizerPart {
  if (part.pretokenizers) return { ...part, pretokenizers: part.pretokenizers.map(withAllDigits) };
  if (part.type !== 'Digits') return part;
  const pattern = { Regex: part.individual_digits ? '\\p{N}' : '\\p{N}+' };
  return { type: 'Split', pattern, behavior: 'Isolated', invert: false } as PreTokenizerPart;
}
