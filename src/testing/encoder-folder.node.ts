import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Words of the small tokenizer, from its first free id on; what no word covers is spelled. */
const WORDS = 'the a cat dog sat ran on mat fast slow is are red blue sky sea good bad story time'.split(' ');

export interface EncoderFolder {
  /** The encoder of src/testing/golden/tiny. */
  readonly name: 'bert' | 'bert-classifier' | 'xlm-roberta' | 'xlm-roberta-classifier';
  /** In place of what its config.json says. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** sentence-transformers' files, for mean pooling and length 1. */
  readonly pools?: boolean;
}

/** Makes `folder` a whole model of a tiny encoder, with a WordPiece tokenizer that its vocabulary holds. */
export function writeEncoderFolder(folder: string, { name, config, pools }: EncoderFolder): string {
  const golden = join(import.meta.dirname, 'golden', 'tiny', name);
  mkdirSync(folder, { recursive: true });
  cpSync(join(golden, 'model.safetensors'), join(folder, 'model.safetensors'));
  const json = (file: string, value: unknown) => writeFileSync(join(folder, file), JSON.stringify(value));
  json('config.json', { ...JSON.parse(readFileSync(join(golden, 'config.json'), 'utf8')), ...config });
  json('tokenizer.json', TOKENIZER);
  json('tokenizer_config.json', { tokenizer_class: 'BertTokenizer', model_max_length: 64, do_lower_case: true });
  if (pools) {
    const module = (idx: number, path: string, kind: string) => ({
      ...{ idx, name: String(idx), path },
      type: `sentence_transformers.models.${kind}`,
    });
    json('modules.json', [
      module(0, '', 'Transformer'),
      module(1, '1_Pooling', 'Pooling'),
      module(2, '2_Normalize', 'Normalize'),
    ]);
    json('sentence_bert_config.json', { max_seq_length: 48, do_lower_case: false });
    mkdirSync(join(folder, '1_Pooling'), { recursive: true });
    json('1_Pooling/config.json', {
      word_embedding_dimension: 48,
      pooling_mode_cls_token: false,
      pooling_mode_mean_tokens: true,
      pooling_mode_max_tokens: false,
      pooling_mode_mean_sqrt_len_tokens: false,
    });
  }
  return folder;
}

const SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]'];
const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'.split('');
const VOCABULARY = [...SPECIAL, ...LETTERS, ...LETTERS.map((letter) => `##${letter}`), '.', ',', '!', '?', ...WORDS];

/** Of all ids that it makes, and those of the special tokens. */
export const TOKEN_IDS: ReadonlyMap<string, number> = new Map(VOCABULARY.map((token, id) => [token, id]));

const special = (id: string, type: number) => ({ SpecialToken: { id, type_id: type } });
const sequence = (id: 'A' | 'B', type: number) => ({ Sequence: { id, type_id: type } });

const TOKENIZER = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: SPECIAL.map((content, id) => ({
    ...{ id, content, special: true },
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false },
  })),
  normalizer: {
    ...{ type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true },
    ...{ strip_accents: null, lowercase: true },
  },
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor: {
    type: 'TemplateProcessing',
    single: [special('[CLS]', 0), sequence('A', 0), special('[SEP]', 0)],
    pair: [special('[CLS]', 0), sequence('A', 0), special('[SEP]', 0), sequence('B', 1), special('[SEP]', 1)],
    special_tokens: Object.fromEntries(
      ['[CLS]', '[SEP]'].map((token) => [token, { id: token, ids: [TOKEN_IDS.get(token)], tokens: [token] }]),
    ),
  },
  decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
  model: {
    ...{ type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100 },
    vocab: Object.fromEntries(TOKEN_IDS),
  },
};
