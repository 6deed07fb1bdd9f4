import { expect } from 'vitest';
import { CheckpointError } from '../../../checkpoint/checkpoint.ts';
import { parseModelConfig } from '../../../checkpoint/model-config.ts';
import { architectureOf } from '../../architecture-of.ts';
import type { AttentionConfig, DecoderConfig } from '../../decoder-config.ts';

export type Keys = Readonly<Record<string, unknown>>;

export const BASE: Keys = {
  model_type: 'any',
  hidden_size: 64,
  intermediate_size: 172,
  num_hidden_layers: 8,
  num_attention_heads: 8,
  vocab_size: 512,
  max_position_embeddings: 8192,
};

/** Of 8 heads and 8 layers; `more` replaces keys, undefined leaves one out. */
export function read(architecture: string, more: Keys = {}, base = BASE): DecoderConfig {
  const config = parseModelConfig(JSON.stringify({ ...base, architectures: [architecture], ...more }), 'config.json');
  return architectureOf(config).readConfig(config);
}

/** Why a config is refused. */
export function refusal(architecture: string, more: Keys, base = BASE): string {
  try {
    read(architecture, more, base);
  } catch (error) {
    expect(error).toBeInstanceOf(CheckpointError);
    return (error as Error).message;
  }
  throw new Error('was read');
}

export const attention = (config: DecoderConfig): AttentionConfig => config.layers[0]!.attention;

/** Some families have so many KV heads where nothing is said that 8 heads are too few. */
export const TWO_KV: Keys = { num_key_value_heads: 2 };
