import type { Gguf } from './gguf.ts';
import { type GgufVocabulary, ggufVocabulary, TOKEN_TYPE } from './gguf-vocabulary.ts';
import { wordPiece, wordPieceParts } from './gguf-wordpiece.ts';
import { PRE_TOKENIZERS } from './pre-tokenizers.ts';
import { MAX_PIECE_CHARACTERS, type Piece, sentencePieceMerges } from './sentencepiece-merges.ts';
import { type TokenBytes, tokenBytes } from './token-bytes.ts';

/** The tokenizer that a GGUF file describes, and the files that a model's folder has for it. */
export interface GgufTokenizer {
  readonly tokens: TokenBytes;
  /**
   * tokenizer.json, as https://github.com/huggingface/tokenizers and its ports read it. Some megabytes, made anew each
   * time. Throws CheckpointError where merges or scores are broken.
   */
  tokenizerJson(): string;
  /** tokenizer_config.json: names of special tokens, and the chat template where the file has one. */
  tokenizerConfigJson(): string;
}

type Json = Readonly<Record<string, unknown>>;

interface AddedToken extends Json {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
}

/** A tokenizer's kind: what it adds to tokenizer.json. */
interface Family {
  /** But for the vocabulary; takes a while. */
  model(): Json;
  readonly normalizer: Json | null;
  readonly preTokenizer: Json | null;
  /** Null: nothing is ever decoded. */
  readonly decoder: Json | null;
  readonly addBos: boolean;
  /** In place of BOS and EOS around a text. */
  readonly postProcessor?: Json;
}

const FAMILIES: Readonly<Record<string, (gguf: Gguf, vocabulary: GgufVocabulary) => Family>> = {
  llama: sentencePiece,
  gpt2: byteLevel,
  bert: (gguf, vocabulary) => ({ ...wordPieceParts(gguf, vocabulary), decoder: null, addBos: false }),
};

/**
 * Writes the tokenizer that a GGUF file describes as Hugging Face's files, so that gateway, relay and engine read it as
 * they read any other. Of several chat templates the one without a name is taken. Throws CheckpointError naming file
 * and key, also for a tokenizer or pre-tokenizer that it doesn't know.
 */
export function ggufTokenizer(gguf: Gguf, stored = ggufVocabulary(gguf)): GgufTokenizer {
  const { metadata } = gguf;
  const kind = metadata.string('tokenizer.ggml.model');
  if (kind === undefined || !Object.hasOwn(FAMILIES, kind)) {
    const known = Object.keys(FAMILIES).join(', ');
    return metadata.fail('tokenizer.ggml.model', kind === undefined ? 'is missing' : `is ${kind}; known: ${known}`);
  }
  const vocabulary = kind === 'bert' ? withWordPieces(stored) : stored;
  const { tokens } = vocabulary;
  const family = FAMILIES[kind]!(gguf, vocabulary);
  const special = (flag: string, id: number | undefined, fallback: boolean): number | undefined => {
    // Whatever it says, this one's own stand there.
    if (family.postProcessor) return undefined;
    const added = metadata.boolean(`tokenizer.ggml.${flag}`) ?? fallback;
    if (added && id === undefined) metadata.fail(`tokenizer.ggml.${flag}`, 'asks for a token that has no id');
    return added ? id : undefined;
  };
  const bos = special('add_bos_token', vocabulary.bos, family.addBos && vocabulary.bos !== undefined);
  const eos = special('add_eos_token', vocabulary.eos, false);
  const added = addedTokens(vocabulary);
  const named = (key: string, id: number | undefined) => (id === undefined ? {} : { [key]: tokens[id] });
  const chatTemplate = metadata.string('tokenizer.chat_template');
  const config = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    ...named('bos_token', vocabulary.bos),
    ...named('eos_token', vocabulary.eos),
    ...named('unk_token', vocabulary.unknown),
    ...named('pad_token', vocabulary.padding),
    add_bos_token: bos !== undefined,
    add_eos_token: eos !== undefined,
    clean_up_tokenization_spaces: false,
    ...(chatTemplate === undefined ? {} : { chat_template: chatTemplate }),
  };
  return {
    tokens: tokenBytes(
      { model: { vocab: tokens.map((token) => [token, 0] as const) }, decoder: family.decoder, added_tokens: added },
      gguf.name,
    ),
    tokenizerJson: () =>
      JSON.stringify({
        version: '1.0',
        truncation: null,
        padding: null,
        added_tokens: added,
        normalizer: family.normalizer,
        pre_tokenizer: family.preTokenizer,
        post_processor:
          family.postProcessor ?? (bos === undefined && eos === undefined ? null : template(tokens, bos, eos)),
        decoder: family.decoder,
        model: { ...family.model(), vocab: Object.fromEntries(tokens.map((token, id) => [token, id])) },
      }),
    tokenizerConfigJson: () => JSON.stringify(config),
  };
}

function withWordPieces(stored: GgufVocabulary): GgufVocabulary {
  return { ...stored, tokens: stored.tokens.map((token, id) => wordPiece(token, stored.types[id]!)) };
}

/** Tokens that are found in a text as they stand, before any splitting; special ones don't show in decoded text. */
function addedTokens({ tokens, types, bos, ends }: GgufVocabulary): AddedToken[] {
  // Some files give these no type of their own.
  const always = new Set([bos, ...ends]);
  return tokens.flatMap((content, id) => {
    const type = types[id];
    const special = type === TOKEN_TYPE.control || type === TOKEN_TYPE.unknown || always.has(id);
    if ((!special && type !== TOKEN_TYPE.userDefined) || content === '') return [];
    return [{ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special }];
  });
}

/** Puts BOS and EOS around a text. */
function template(tokens: readonly string[], bos: number | undefined, eos: number | undefined): Json {
  const token = (id: number | undefined, type: number) =>
    id === undefined ? [] : [{ SpecialToken: { id: tokens[id], type_id: type } }];
  const around = (sequence: 'A' | 'B', type: number) => [
    ...token(bos, type),
    { Sequence: { id: sequence, type_id: type } },
    ...token(eos, type),
  ];
  const ids = [...new Set([bos, eos])].filter((id) => id !== undefined);
  return {
    type: 'TemplateProcessing',
    single: around('A', 0),
    pair: [...around('A', 0), ...around('B', 1)],
    special_tokens: Object.fromEntries(
      ids.map((id) => [tokens[id], { id: tokens[id], ids: [id], tokens: [tokens[id]] }]),
    ),
  };
}

/** The merges of a SentencePiece model, each the two pieces with a space between. */
function spmMerges({ metadata }: Gguf, { tokens, types }: GgufVocabulary): string[] {
  const scores = metadata.numbers('tokenizer.ggml.scores') ?? metadata.fail('tokenizer.ggml.scores', 'is missing');
  if (scores.length !== tokens.length) {
    metadata.fail('tokenizer.ggml.scores', `has ${scores.length} scores for ${tokens.length} tokens`);
  }
  const pieces = new Map<string, Piece>();
  tokens.forEach((token, id) => {
    // In texts ▁ stands for every space, so a piece with one is never met.
    if (types[id] !== TOKEN_TYPE.normal || token.includes(' ')) return;
    if (token.length > MAX_PIECE_CHARACTERS) {
      metadata.fail('tokenizer.ggml.tokens', `has a piece of ${token.length} characters, token ${id}`);
    }
    const score = scores[id]!;
    if (!Number.isFinite(score)) metadata.fail('tokenizer.ggml.scores', `has no finite number for token ${id}`);
    pieces.set(token, { id, score });
  });
  return sentencePieceMerges(pieces).map((pair) => pair.join(' '));
}

/** `tokenizer.ggml.model` "llama": SentencePiece BPE; ▁ stands for a space, <0xNN> for a byte. */
function sentencePiece(gguf: Gguf, vocabulary: GgufVocabulary): Family {
  const { tokens, unknown } = vocabulary;
  const prefix = gguf.metadata.boolean('tokenizer.ggml.add_space_prefix') ?? true;
  const toMark = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  const toSpace = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
  return {
    model: () => ({
      type: 'BPE',
      dropout: null,
      unk_token: unknown === undefined ? null : tokens[unknown],
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: true,
      ignore_merges: false,
      merges: spmMerges(gguf, vocabulary),
    }),
    normalizer: prefix ? { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, toMark] } : toMark,
    preTokenizer: null,
    decoder: {
      type: 'Sequence',
      decoders: [
        toSpace,
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        ...(prefix ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []),
      ],
    },
    addBos: true,
  };
}

/** The merges of a byte-level tokenizer, each of two tokens that make a third. */
function byteLevelMerges({ metadata }: Gguf, tokens: readonly string[]): readonly string[] {
  const merges = metadata.strings('tokenizer.ggml.merges') ?? metadata.fail('tokenizer.ggml.merges', 'is missing');
  const known = new Set(tokens);
  merges.forEach((merge, rank) => {
    const [left, right, ...more] = merge.split(' ');
    if (!left || !right || more.length > 0 || !known.has(left) || !known.has(right) || !known.has(left + right)) {
      metadata.fail(
        'tokenizer.ggml.merges',
        `has ${JSON.stringify(merge)} at ${rank}, not two tokens that make a third`,
      );
    }
  });
  return merges;
}

/** `tokenizer.ggml.model` "gpt2": byte-level BPE over words. */
function byteLevel(gguf: Gguf, { tokens }: GgufVocabulary): Family {
  const { metadata } = gguf;
  const pre = metadata.string('tokenizer.ggml.pre') ?? 'default';
  if (!Object.hasOwn(PRE_TOKENIZERS, pre)) {
    metadata.fail('tokenizer.ggml.pre', `is ${pre}; known: ${Object.keys(PRE_TOKENIZERS).join(', ')}`);
  }
  const { splits, ignoreMerges = false, addBos = false, nfc = false } = PRE_TOKENIZERS[pre]!;
  return {
    model: () => ({
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: ignoreMerges,
      merges: byteLevelMerges(gguf, tokens),
    }),
    normalizer: nfc ? { type: 'NFC' } : null,
    preTokenizer: {
      type: 'Sequence',
      pretokenizers: [
        ...splits.map((split) => ({ type: 'Split', pattern: { Regex: split }, behavior: 'Isolated', invert: false })),
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
    addBos,
  };
}
