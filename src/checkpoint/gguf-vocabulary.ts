import type { Gguf } from './gguf.ts';

/** GGUF's token types. */
export const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

/** Tokens after which a turn, or a text, is over; files needn't have ids for them (https://github.com/ggml-org/llama.cpp, llama-vocab). */
const END_TEXTS = new Set([
  ...['<|eot_id|>', '<|eom_id|>', '<|im_end|>', '<|end|>', '<end_of_turn>', '<|endoftext|>', '<|end_of_text|>'],
]);

/** What a GGUF file says of tokens, whatever the tokenizer. */
export interface GgufVocabulary {
  /** Texts by id. */
  readonly tokens: readonly string[];
  /** Types by id. */
  readonly types: ArrayLike<number>;
  readonly bos: number | undefined;
  readonly eos: number | undefined;
  readonly unknown: number | undefined;
  readonly padding: number | undefined;
  /** Ids after which a model has nothing more to say: end of sequence, of turn and of message. */
  readonly ends: readonly number[];
}

/** Reads `tokenizer.ggml.*`. Throws CheckpointError naming file and key. */
export function ggufVocabulary({ metadata }: Gguf): GgufVocabulary {
  const texts = metadata.strings('tokenizer.ggml.tokens') ?? metadata.fail('tokenizer.ggml.tokens', 'is missing');
  const types = metadata.numbers('tokenizer.ggml.token_type') ?? new Uint8Array(texts.length).fill(TOKEN_TYPE.normal);
  if (types.length !== texts.length) {
    metadata.fail('tokenizer.ggml.token_type', `has ${types.length} types for ${texts.length} tokens`);
  }
  // SentencePiece's user-defined tokens are found in the text itself, where a space is a space.
  const marked = metadata.string('tokenizer.ggml.model') === 'llama';
  const tokens = texts.map((text, id) =>
    marked && types[id] === TOKEN_TYPE.userDefined ? text.replaceAll('▁', ' ') : text,
  );
  const first = new Map<string, number>();
  tokens.forEach((token, id) => {
    const before = first.get(token);
    if (before !== undefined) {
      metadata.fail('tokenizer.ggml.tokens', `has ${JSON.stringify(token)} twice, as ${before} and ${id}`);
    }
    first.set(token, id);
    const type = types[id]!;
    if (!(type >= TOKEN_TYPE.normal && type <= TOKEN_TYPE.byte)) {
      metadata.fail('tokenizer.ggml.token_type', `is ${type} for token ${id}, which GGUF doesn't know`);
    }
  });
  const id = (name: string): number | undefined => {
    const key = `tokenizer.ggml.${name}_token_id`;
    const value = metadata.count(key);
    // Some files have 0xffffffff for "none".
    if (value === undefined || value === 0xffffffff) return undefined;
    return value < tokens.length ? value : metadata.fail(key, `is ${value} of ${tokens.length} tokens`);
  };
  const eos = id('eos');
  const isMarked = (token: number) => types[token] === TOKEN_TYPE.control || types[token] === TOKEN_TYPE.userDefined;
  const found = tokens.flatMap((text, token) => (END_TEXTS.has(text) && isMarked(token) ? [token] : []));
  const ends = [eos, id('eot'), id('eom'), ...found].filter((end) => end !== undefined);
  return {
    ...{ tokens, types, eos, bos: id('bos'), unknown: id('unknown'), padding: id('padding') },
    ends: [...new Set(ends)],
  };
}
