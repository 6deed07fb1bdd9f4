import type { Gguf } from './gguf.ts';
import { type GgufVocabulary, TOKEN_TYPE } from './gguf-vocabulary.ts';

type Json = Readonly<Record<string, unknown>>;

/** Begins the pieces that begin a word, in GGUF; in Hugging Face's files those that don't have a ## instead. */
const WORD_START = '▁';

/** A WordPiece token as Hugging Face's files write it. */
export function wordPiece(token: string, type: number): string {
  if (token.startsWith(WORD_START)) return token.slice(WORD_START.length);
  const whole = type !== TOKEN_TYPE.normal || /^\[.*\]$/.test(token);
  return whole ? token : `##${token}`;
}

/**
 * `tokenizer.ggml.model` "bert": WordPiece. Letters are made small unless the file says that they aren't, as in llama.cpp.
 * Throws CheckpointError naming the key.
 */
export function wordPieceParts(gguf: Gguf, { tokens, bos, unknown }: GgufVocabulary) {
  const { metadata } = gguf;
  const named = (text: string, key: string, id = metadata.count(`tokenizer.ggml.${key}`)): string => {
    if (id === undefined && !tokens.includes(text)) metadata.fail(`tokenizer.ggml.${key}`, 'is missing');
    if (id !== undefined && id >= tokens.length) {
      metadata.fail(`tokenizer.ggml.${key}`, `is ${id} of ${tokens.length} tokens`);
    }
    return id === undefined ? text : tokens[id]!;
  };
  const unk = named('[UNK]', 'unknown_token_id', unknown);
  const cls = named('[CLS]', 'cls_token_id', metadata.count('tokenizer.ggml.cls_token_id') ?? bos);
  // So the converter writes it.
  const sep = named('[SEP]', 'seperator_token_id');
  const lowercase = metadata.boolean('tokenizer.ggml.normalizer.lowercase') ?? true;
  return {
    model: () => ({
      type: 'WordPiece',
      unk_token: unk,
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
    }),
    normalizer: {
      ...{ type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, lowercase },
      strip_accents: metadata.boolean('tokenizer.ggml.normalizer.strip_accents') ?? null,
    },
    preTokenizer: { type: 'BertPreTokenizer' },
    postProcessor: template(cls, sep, (token) => tokens.indexOf(token)),
  };
}

/** [CLS] A [SEP], and B [SEP] of the second type. */
function template(cls: string, sep: string, idOf: (token: string) => number): Json {
  const special = (id: string, type: number) => ({ SpecialToken: { id, type_id: type } });
  const sequence = (id: 'A' | 'B', type: number) => ({ Sequence: { id, type_id: type } });
  const single = [special(cls, 0), sequence('A', 0), special(sep, 0)];
  return {
    type: 'TemplateProcessing',
    single,
    pair: [...single, sequence('B', 1), special(sep, 1)],
    special_tokens: Object.fromEntries(
      [cls, sep].map((token) => [token, { id: token, ids: [idOf(token)], tokens: [token] }]),
    ),
  };
}
