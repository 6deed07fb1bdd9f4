import { CheckpointError } from './checkpoint.ts';
import { textConfig } from './text-part.ts';

/** What config.json says of any model; architectures read the rest from `raw`. */
export interface ModelConfig {
  /** Class names of the reference implementation, such as LlamaForCausalLM. */
  readonly architectures: readonly string[];
  readonly modelType: string;
  readonly vocabSize: number;
  /** Tokens of one sequence, prompt and output together. */
  readonly contextLength: number;
  readonly hiddenSize: number;
  /** Undefined where it isn't said; the architecture insists on it. */
  readonly layers: number | undefined;
  readonly eosTokenIds: readonly number[];
  readonly bosTokenId: number | undefined;
  readonly padTokenId: number | undefined;
  /** As config.json has it, but for what is of no text part. */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** What generation_config.json may say instead of config.json. */
export interface GenerationConfig {
  readonly eosTokenIds: readonly number[] | undefined;
  readonly bosTokenId: number | undefined;
  readonly padTokenId: number | undefined;
}

/**
 * Parses a Hugging Face config.json, by today's keys or GPT-2's; of a model of texts and images its text part. Throws
 * CheckpointError naming `file` and the key.
 */
export function parseModelConfig(text: string, file: string): ModelConfig {
  const raw = textConfig(parseObject(text, file));
  const architectures = raw.architectures;
  if (
    !Array.isArray(architectures) ||
    !architectures.every((a) => typeof a === 'string') ||
    architectures.length === 0
  ) {
    throw new CheckpointError(`${file}: architectures is not a list of names`);
  }
  if (typeof raw.model_type !== 'string') throw new CheckpointError(`${file}: model_type is missing`);
  const size = (...keys: readonly [string, ...string[]]): number => {
    const key = keys.find((each) => Object.hasOwn(raw, each)) ?? keys[0];
    const value = raw[key];
    if (!Number.isSafeInteger(value) || (value as number) < 1) {
      throw new CheckpointError(`${file}: ${key} is ${JSON.stringify(value)}, not a size`);
    }
    return value as number;
  };
  const vocabSize = size('vocab_size');
  return {
    architectures,
    modelType: raw.model_type,
    vocabSize,
    contextLength: size('max_position_embeddings', 'n_positions'),
    hiddenSize: size('hidden_size', 'n_embd'),
    layers: count(raw.num_hidden_layers ?? raw.n_layer),
    eosTokenIds: tokenIds(raw, 'eos_token_id', file) ?? [],
    bosTokenId: tokenIds(raw, 'bos_token_id', file)?.[0],
    padTokenId: tokenIds(raw, 'pad_token_id', file)?.[0],
    raw,
  };
}

/** Parses a Hugging Face generation_config.json; its ids win over config.json's. */
export function parseGenerationConfig(text: string, file: string): GenerationConfig {
  const raw = parseObject(text, file);
  return {
    eosTokenIds: tokenIds(raw, 'eos_token_id', file),
    bosTokenId: tokenIds(raw, 'bos_token_id', file)?.[0],
    padTokenId: tokenIds(raw, 'pad_token_id', file)?.[0],
  };
}

function count(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

function parseObject(text: string, file: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CheckpointError(`${file}: not JSON (${(error as Error).message})`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new CheckpointError(`${file}: not a JSON object`);
  }
  return value as Record<string, unknown>;
}

/** One id or a list of them; undefined where absent or null. */
function tokenIds(raw: Readonly<Record<string, unknown>>, key: string, file: string): readonly number[] | undefined {
  const value = raw[key];
  if (value === undefined || value === null) return undefined;
  const ids = Array.isArray(value) ? value : [value];
  if (!ids.every((id) => Number.isSafeInteger(id) && id >= -1)) {
    throw new CheckpointError(`${file}: ${key} is ${JSON.stringify(value)}, not a token id or a list of them`);
  }
  // Some published configs write −1 for "none".
  return ids.filter((id) => id >= 0);
}
