import { CheckpointError } from '../../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../../checkpoint/model-config.ts';
import type { Activation } from '../../gpu/activation.ts';

/** Keys that change nothing in the forward pass of a model that is not being trained, whatever the family. */
const IRRELEVANT = new Set([
  ...['architectures', 'model_type', 'vocab_size', 'max_position_embeddings', 'hidden_size'],
  ...['bos_token_id', 'eos_token_id', 'pad_token_id', 'unk_token_id', 'sep_token_id', 'cls_token_id'],
  ...['decoder_start_token_id', 'torch_dtype', 'dtype', 'use_cache', 'cache_implementation', 'initializer_range'],
  ...['attention_dropout', 'hidden_dropout', 'transformers_version', '_name_or_path', 'name_or_path', 'return_dict'],
  ...['output_attentions', 'output_hidden_states', 'max_length', 'transformers.js_config', 'auto_map', 'id2label'],
  ...[
    'label2id',
    '_num_labels',
    'problem_type',
    '_attn_implementation_autoset',
    'task_specific_params',
    'unsloth_fixed',
  ],
  ...['unsloth_version', 'generation_config', 'chunk_size_feed_forward', 'gradient_checkpointing', 'is_decoder'],
  ...['attn_implementation', '_attn_implementation', 'finetuning_task', 'prefix', 'tokenizer_class', 'tf_legacy_loss'],
  // Left of code before today's, which reads none of them: max_position_embeddings is the context.
  ...['max_sequence_length', 'output_past'],
  // Files of earlier references have all that generate() takes, in most of them as it is anyway.
  ...['begin_suppress_tokens', 'diversity_penalty', 'do_sample', 'early_stopping', 'encoder_no_repeat_ngram_size'],
  ...['exponential_decay_length_penalty', 'forced_bos_token_id', 'forced_eos_token_id', 'length_penalty'],
  ...['max_new_tokens', 'min_length', 'no_repeat_ngram_size', 'num_beam_groups', 'num_beams', 'num_return_sequences'],
  ...['output_scores', 'remove_invalid_values', 'repetition_penalty', 'return_dict_in_generate', 'suppress_tokens'],
  ...['temperature', 'top_k', 'top_p', 'typical_p'],
]);

const ACTIVATIONS: Readonly<Record<string, Activation>> = {
  ...{ silu: 'silu', swish: 'silu', gelu: 'gelu', relu: 'relu' },
  ...{ gelu_new: 'gelu-tanh', gelu_fast: 'gelu-tanh', gelu_pytorch_tanh: 'gelu-tanh' },
};

/**
 * Reads the keys of a config.json, and knows which it has read, so that none is left that would change the model.
 * Every method throws CheckpointError naming the key.
 */
export class ConfigKeys {
  readonly config: ModelConfig;
  readonly raw: Readonly<Record<string, unknown>>;
  readonly #read = new Set<string>();

  constructor(config: ModelConfig) {
    this.config = config;
    this.raw = config.raw;
  }

  fail(reason: string): never {
    throw new CheckpointError(`config.json: ${reason}`);
  }

  /** A key's value, undefined where it is absent. */
  get(key: string): unknown {
    this.#read.add(key);
    return Object.hasOwn(this.raw, key) ? this.raw[key] : undefined;
  }

  failOf(key: string, reason: string): never {
    return this.fail(`${key} is ${JSON.stringify(this.raw[key])}${reason}`);
  }

  /** A whole number above 0: `absent` where there is no such key, `off` where it is null. */
  size(key: string, absent?: number, off = absent): number {
    const found = this.get(key);
    const value = found === undefined ? absent : found === null ? off : found;
    return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : this.failOf(key, ', not a size');
  }

  /** The same, or undefined where it is null, or absent and `absent` is undefined. */
  optionalSize(key: string, absent?: number): number | undefined {
    const value = this.get(key);
    return value === null || (value === undefined && absent === undefined) ? undefined : this.size(key, absent);
  }

  /** A finite number above 0. */
  positive(key: string, absent?: number): number {
    return this.optionalPositive(key, absent) ?? this.failOf(key, ', not a positive number');
  }

  /** The same, or undefined where it is null, or absent and `absent` is undefined. */
  optionalPositive(key: string, absent?: number): number | undefined {
    const value = this.get(key);
    if (value === undefined) return absent;
    if (value === null) return undefined;
    const positive = typeof value === 'number' && value > 0 && Number.isFinite(value);
    return positive ? value : this.failOf(key, ', not a positive number');
  }

  flag(key: string, absent: boolean): boolean {
    const value = this.get(key) ?? absent;
    return typeof value === 'boolean' ? value : this.failOf(key, ', neither true nor false');
  }

  activation(key: string, absent: string): Activation {
    const value = this.get(key) ?? absent;
    if (typeof value === 'string' && Object.hasOwn(ACTIVATIONS, value)) return ACTIVATIONS[value]!;
    return this.failOf(key, `; known: ${Object.keys(ACTIVATIONS).join(', ')}`);
  }

  /** Refuses every value but those `served`; the key may be absent or null. */
  only(key: string, ...served: readonly unknown[]): void {
    const value = this.get(key);
    if (value === undefined || value === null || served.includes(value)) return;
    this.failOf(key, `; only ${served.map((each) => JSON.stringify(each)).join(' or ')} is served`);
  }

  /** One value a layer; undefined where there is no such key or it is null. */
  perLayer<T>(key: string, layers: number, isValue: (value: unknown) => value is T): readonly T[] | undefined {
    const value = this.get(key);
    if (value === undefined || value === null) return undefined;
    if (Array.isArray(value) && value.length === layers && value.every(isValue)) return value;
    return this.failOf(key, `, not one of its values for each of ${layers} layers`);
  }

  /** A list of numbers of layers; empty where it is absent or null. */
  indices(key: string, layers: number): readonly number[] {
    const value = this.get(key) ?? [];
    const isIndex = (each: unknown) => Number.isSafeInteger(each) && (each as number) >= 0 && (each as number) < layers;
    return Array.isArray(value) && value.every(isIndex)
      ? value
      : this.failOf(key, `, not a list of ${layers} layers' numbers`);
  }

  /** Refuses what is left: a key that was not read, isn't off (null, false, empty) and isn't known to change nothing. */
  refuseOthers(...irrelevant: readonly string[]): void {
    for (const [key, value] of Object.entries(this.raw)) {
      if (this.#read.has(key) || IRRELEVANT.has(key) || irrelevant.includes(key)) continue;
      // A setting that is off changes nothing, whatever it is.
      if (!isOff(value)) this.failOf(key, ', a setting that is not served');
    }
  }
}

function isOff(value: unknown): boolean {
  return value === false || value === null || (typeof value === 'object' && Object.keys(value).length === 0);
}
