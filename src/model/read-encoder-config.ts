import type { ModelConfig } from '../checkpoint/model-config.ts';
import { ConfigKeys } from './architectures/config-keys.ts';
import type { ClassifierConfig, EncoderConfig } from './encoder-config.ts';

/** Keys of encoders that change nothing in the forward pass of one that is not being trained. */
const IRRELEVANT = [
  ...['attention_probs_dropout_prob', 'hidden_dropout_prob', 'classifier_dropout', 'gradient_checkpointing'],
  ...['output_past', 'directionality', 'finetuning_task', 'tokenizer_class', 'tie_word_embeddings'],
  // Of BERT's multilingual checkpoints: a pooler's pooler, which no code has.
  ...['pooler_fc_size', 'pooler_num_attention_heads', 'pooler_num_fc_layers', 'pooler_size_per_head', 'pooler_type'],
];

/** A family's own: which of its architectures a config is of, and how it counts positions. */
export interface EncoderFamily {
  readonly architecture: string;
  readonly classifies: boolean;
  /** Positions come after the padding id's, as RoBERTa's. */
  readonly padded: boolean;
}

/**
 * Reads the config of an encoder of the BERT family. Throws CheckpointError naming the key, also for a setting that it
 * doesn't know.
 */
export function readEncoderConfig(
  config: ModelConfig,
  { architecture, classifies, padded }: EncoderFamily,
): EncoderConfig {
  const keys = new ConfigKeys(config);
  const { vocabSize, hiddenSize, contextLength: positions } = config;
  keys.only('position_embedding_type', 'absolute');
  for (const key of ['is_decoder', 'add_cross_attention']) keys.only(key, false);
  const activation = keys.activation('hidden_act', 'gelu');
  if (activation === 'silu') return keys.failOf('hidden_act', ', which no encoder has');
  const heads = keys.size('num_attention_heads');
  if (hiddenSize % heads !== 0) keys.failOf('num_attention_heads', `, and does not divide hidden_size ${hiddenSize}`);
  const headSize = hiddenSize / heads;
  if (headSize % 4 !== 0) keys.fail(`hidden_size / num_attention_heads is ${headSize}, not a multiple of 4`);
  const positionPad = padded ? (config.padTokenId ?? 1) : undefined;
  const contextLength = positions - (positionPad === undefined ? 0 : positionPad + 1);
  if (contextLength < 1) keys.failOf('max_position_embeddings', `, with no position after pad_token_id ${positionPad}`);
  const read: EncoderConfig = {
    ...{ architecture, vocabSize, contextLength, hiddenSize, heads, headSize, positions, activation },
    layers: keys.size('num_hidden_layers'),
    intermediateSize: keys.size('intermediate_size'),
    // transformers' own default is the same for both families.
    normEpsilon: keys.positive('layer_norm_eps', 1e-12),
    ...(positionPad === undefined ? {} : { positionPad }),
    tokenTypes: keys.size('type_vocab_size', 2),
    ...(classifies ? { classifier: readClassifier(keys) } : {}),
  };
  // A classifier's keys are of no use to an encoder by itself, and what is made of its logits is the relay's.
  keys.refuseOthers(...IRRELEVANT, 'num_labels', 'sentence_transformers', 'sbert_ce_default_activation_function');
  return read;
}

/** The classes that config.json has; two unless it says otherwise. */
function readClassifier(keys: ConfigKeys): ClassifierConfig {
  const named = keys.get('id2label') ?? undefined;
  const count = named === undefined ? keys.size('num_labels', 2) : undefined;
  const byId = named ?? Array.from({ length: count! }, (_, i) => `LABEL_${i}`);
  if (typeof byId !== 'object') keys.failOf('id2label', ', not names by number');
  const labels = Object.entries(byId)
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([id, label], i): string => {
      if (Number(id) === i && typeof label === 'string') return label;
      return keys.failOf('id2label', ', not names by number from 0 on');
    });
  if (labels.length === 0) keys.failOf('id2label', ', no class');
  keys.only('num_labels', labels.length);
  return { labels };
}
