import { CheckpointError } from '../checkpoint/checkpoint.ts';
import type { ModelConfig } from '../checkpoint/model-config.ts';

/** The numbers of a Llama-architecture model. */
export interface LlamaConfig {
  readonly layers: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** Numbers of a head. */
  readonly headSize: number;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly normEpsilon: number;
  readonly ropeTheta: number;
  /** The head is the embedding matrix. */
  readonly tiedHead: boolean;
}

/** Keys that change nothing in the forward pass of a model that is not being trained. */
const IRRELEVANT = new Set([
  ...['architectures', 'model_type', 'vocab_size', 'max_position_embeddings', 'hidden_size', 'intermediate_size'],
  ...['num_hidden_layers', 'num_attention_heads', 'num_key_value_heads', 'head_dim', 'rms_norm_eps', 'rope_theta'],
  ...['rope_scaling', 'rope_parameters', 'hidden_act', 'tie_word_embeddings', 'attention_bias', 'mlp_bias'],
  ...['pretraining_tp', 'bos_token_id', 'eos_token_id', 'pad_token_id', 'unk_token_id', 'torch_dtype', 'dtype'],
  ...['use_cache', 'initializer_range', 'attention_dropout', 'hidden_dropout', 'transformers_version'],
  ...['_name_or_path', 'return_dict', 'output_attentions', 'output_hidden_states', 'is_llama_config', 'max_length'],
  ...['transformers.js_config', 'auto_map', 'name_or_path', 'id2label', 'label2id', 'problem_type'],
]);

/** Reads a Llama model's config. Throws CheckpointError naming the key, also for a setting it doesn't know. */
export function llamaConfig(config: ModelConfig): LlamaConfig {
  const { raw } = config;
  const fail = (reason: string): never => {
    throw new CheckpointError(`config.json: ${reason}`);
  };
  const show = (key: string): string => `${key} is ${JSON.stringify(raw[key])}`;
  const size = (key: string, fallback?: number): number => {
    const value = raw[key] ?? fallback;
    if (!Number.isSafeInteger(value) || (value as number) < 1) fail(`${show(key)}, not a size`);
    return value as number;
  };
  const positive = (key: string, value: unknown): number => {
    if (typeof value !== 'number' || !(value > 0) || !Number.isFinite(value)) {
      fail(`${key} is ${JSON.stringify(value)}, not a positive number`);
    }
    return value as number;
  };
  const only = (key: string, ...served: readonly unknown[]): void => {
    if (raw[key] !== undefined && !served.includes(raw[key])) {
      fail(`${show(key)}; only ${served.map((value) => JSON.stringify(value)).join(' or ')} is served`);
    }
  };

  if (!config.architectures.includes('LlamaForCausalLM')) {
    fail(`architectures are ${config.architectures.join(', ')}; only LlamaForCausalLM is served`);
  }
  only('hidden_act', 'silu');
  only('attention_bias', false);
  only('mlp_bias', false);
  only('pretraining_tp', 1);
  for (const [key, value] of Object.entries(raw)) {
    // A setting that is off (null, false) changes nothing, whatever it is.
    if (!IRRELEVANT.has(key) && value !== null && value !== false) fail(`${show(key)}, a setting that is not served`);
  }

  const hiddenSize = size('hidden_size');
  const heads = size('num_attention_heads');
  const kvHeads = size('num_key_value_heads', heads);
  if (heads % kvHeads !== 0) fail(`num_key_value_heads ${kvHeads} does not divide num_attention_heads ${heads}`);
  if (raw.head_dim == null && hiddenSize % heads !== 0) {
    fail(`num_attention_heads ${heads} does not divide hidden_size ${hiddenSize}`);
  }
  const headSize = size('head_dim', hiddenSize / heads);
  if (headSize % 4 !== 0) fail(`head_dim ${headSize} is not a multiple of 4`);
  const tied = raw.tie_word_embeddings ?? false;
  if (typeof tied !== 'boolean') fail(`${show('tie_word_embeddings')}, neither true nor false`);
  return {
    layers: size('num_hidden_layers'),
    hiddenSize,
    intermediateSize: size('intermediate_size'),
    heads,
    kvHeads,
    headSize,
    vocabSize: config.vocabSize,
    contextLength: config.contextLength,
    normEpsilon: positive('rms_norm_eps', raw.rms_norm_eps ?? 1e-6),
    ropeTheta: positive('rope_theta', readRopeTheta(raw, fail)),
    tiedHead: tied as boolean,
  };
}

/** rope_theta, at the top level or in the newer rope_parameters; any kind but the default one is refused. */
function readRopeTheta(raw: Readonly<Record<string, unknown>>, fail: (reason: string) => never): unknown {
  let theta: unknown = raw.rope_theta ?? 10_000;
  for (const key of ['rope_scaling', 'rope_parameters']) {
    const rope = raw[key];
    if (rope === undefined || rope === null) continue;
    if (typeof rope !== 'object') fail(`${key} is ${JSON.stringify(rope)}`);
    for (const [name, value] of Object.entries(rope as Record<string, unknown>)) {
      if (name === 'rope_theta') theta = value;
      else if (!((name === 'rope_type' || name === 'type') && value === 'default')) {
        fail(`${key}.${name} is ${JSON.stringify(value)}, which is not served`);
      }
    }
  }
  return theta;
}
