import { CheckpointError } from '../../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../../checkpoint/model-config.ts';
import type { PoolingConfig } from '../../checkpoint/sentence-transformers.ts';
import type { Padding } from '../../contract/normalise-embed.ts';

/** What is done to a classifier's logits before a client gets them. */
export type ScoreActivation = 'none' | 'sigmoid';

/** What a model's vectors are, or a classifier's results. */
export interface ServedVectors {
  /** Numbers of each: of a classifier, its classes. */
  readonly size: number;
  /** Their length is 1: the model's files say so, or say nothing. */
  readonly normalised: boolean;
  /** Of a classifier, which scores pairs too; undefined: the vectors are embeddings. */
  readonly classes: { readonly labels: readonly string[]; readonly activation: ScoreActivation } | undefined;
  /** Token types that it knows. */
  readonly tokenTypes: number;
  /** What its tokenizer fills texts up with; undefined: it doesn't. */
  readonly padding: Padding | undefined;
  /** Tokens of one text. */
  readonly contextLength: number;
}

/** BertConfig's default, which config.json may leave out. */
const TOKEN_TYPES = 2;
/** PretrainedConfig's default. */
const LABELS = 2;

/**
 * What vectors a model makes; `pooling` is what the files of sentence-transformers say, where it has them. Throws
 * CheckpointError naming what can't be.
 */
export function servedVectors(
  config: ModelConfig,
  classifies: boolean,
  pooling: PoolingConfig | undefined,
  tokenizerJson: string,
): ServedVectors {
  const { raw, hiddenSize } = config;
  const labels = classifies ? labelsOf(raw) : undefined;
  return {
    size: labels?.length ?? pooling?.dense?.at(-1)?.outputs ?? hiddenSize,
    normalised: !classifies && (pooling?.normalised ?? true),
    classes: labels && { labels, activation: activationOf(raw) },
    tokenTypes: isEncoder(config) ? sizeOf(raw, 'type_vocab_size', TOKEN_TYPES) : 1,
    padding: paddingOf(tokenizerJson),
    contextLength: Math.min(contextOf(config), pooling?.maxLength ?? Number.POSITIVE_INFINITY),
  };
}

function paddingOf(tokenizerJson: string): Padding | undefined {
  const { padding } = JSON.parse(tokenizerJson) as { padding?: { pad_id?: unknown; direction?: unknown } | null };
  if (!padding || !Number.isSafeInteger(padding.pad_id)) return undefined;
  return { id: padding.pad_id as number, side: padding.direction === 'Left' ? 'left' : 'right' };
}

function isEncoder({ modelType }: ModelConfig): boolean {
  return /bert/.test(modelType);
}

/** RoBERTa's positions begin after the padding's. */
function contextOf({ modelType, contextLength, padTokenId }: ModelConfig): number {
  if (!modelType.endsWith('roberta')) return contextLength;
  return Math.max(1, contextLength - (padTokenId ?? 1) - 1);
}

function sizeOf(raw: ModelConfig['raw'], key: string, absent: number): number {
  const value = raw[key] ?? absent;
  if (!Number.isSafeInteger(value) || (value as number) < 1 || (value as number) > 65_536) {
    throw new CheckpointError(`config.json: ${key} is ${JSON.stringify(value)}, not a size up to 65536`);
  }
  return value as number;
}

/** In the order of the logits. */
function labelsOf(raw: ModelConfig['raw']): readonly string[] {
  const named = raw.id2label;
  if (named === undefined || named === null) {
    return Array.from({ length: sizeOf(raw, 'num_labels', LABELS) }, (_, id) => `LABEL_${id}`);
  }
  const entries = Object.entries(named);
  const labels = entries.map((_, id) => (named as Record<string, unknown>)[String(id)]);
  if (labels.length === 0 || !labels.every((label) => typeof label === 'string')) {
    throw new CheckpointError('config.json: id2label does not name the classes 0, 1, … one by one');
  }
  return labels as string[];
}

/** As SGLang's get_cross_encoder_activation_function: the logits themselves, unless the model's files name another. */
function activationOf(raw: ModelConfig['raw']): ScoreActivation {
  const nested = raw.sentence_transformers as { activation_fn?: unknown } | null | undefined;
  const name = nested?.activation_fn ?? raw.sbert_ce_default_activation_function ?? undefined;
  switch (name) {
    case undefined:
    case 'torch.nn.modules.linear.Identity':
      return 'none';
    case 'torch.nn.modules.activation.Sigmoid':
      return 'sigmoid';
    default:
      throw new CheckpointError(`config.json: the activation ${JSON.stringify(name)} of scores is not served`);
  }
}

/** What a client is told of a vector that a node made. */
export function clientValues(vector: Float32Array, { classes }: ServedVectors): Float32Array {
  return classes?.activation === 'sigmoid' ? vector.map((logit) => 1 / (1 + Math.exp(-logit))) : vector;
}
