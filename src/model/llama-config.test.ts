import { expect, test } from 'vitest';
import { parseModelConfig } from '../checkpoint/model-config.ts';
import { llamaConfig } from './llama-config.ts';

const BASE = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  hidden_size: 64,
  intermediate_size: 172,
  num_hidden_layers: 5,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  vocab_size: 512,
  max_position_embeddings: 512,
  rms_norm_eps: 1e-5,
  rope_theta: 500_000,
  hidden_act: 'silu',
};

const read = (more: Record<string, unknown>) =>
  llamaConfig(parseModelConfig(JSON.stringify({ ...BASE, ...more }), 'config.json'));

test('reads a released config', () => {
  expect(read({ tie_word_embeddings: true, rope_scaling: null, torch_dtype: 'bfloat16', use_cache: true })).toEqual({
    layers: 5,
    hiddenSize: 64,
    intermediateSize: 172,
    heads: 8,
    kvHeads: 4,
    headSize: 8,
    vocabSize: 512,
    contextLength: 512,
    normEpsilon: 1e-5,
    ropeTheta: 500_000,
    tiedHead: true,
  });
});

test('defaults: an untied head, as many KV heads as heads, a head size that follows', () => {
  const config = read({ num_key_value_heads: undefined });
  expect([config.tiedHead, config.kvHeads, config.headSize]).toEqual([false, 8, 8]);
  expect(read({ head_dim: 20 }).headSize).toBe(20);
});

test('rope_theta may come in the newer rope_parameters', () => {
  const config = read({ rope_theta: undefined, rope_parameters: { rope_theta: 1234, rope_type: 'default' } });
  expect(config.ropeTheta).toBe(1234);
});

test('a setting that is off is no setting', () => {
  expect(read({ sliding_window: null, rope_interleaved: false, quantization_config: null }).layers).toBe(5);
});

test.each([
  [{ rope_scaling: { rope_type: 'llama3', factor: 8 } }, /rope_scaling\.rope_type is "llama3"/],
  [{ rope_parameters: { rope_type: 'yarn', rope_theta: 1 } }, /rope_parameters\.rope_type is "yarn"/],
  [{ hidden_act: 'gelu' }, /hidden_act is "gelu"; only "silu" is served/],
  [{ attention_bias: true }, /attention_bias is true; only false is served/],
  [{ mlp_bias: true }, /mlp_bias is true/],
  [{ pretraining_tp: 2 }, /pretraining_tp is 2/],
  [{ sliding_window: 128 }, /sliding_window is 128, a setting that is not served/],
  [{ quantization_config: { bits: 4 } }, /quantization_config/],
  [{ architectures: ['MistralForCausalLM'] }, /MistralForCausalLM; only LlamaForCausalLM/],
  [{ num_key_value_heads: 3 }, /num_key_value_heads 3 does not divide num_attention_heads 8/],
  [{ num_attention_heads: 7, num_key_value_heads: 7 }, /num_attention_heads 7 does not divide hidden_size 64/],
  [{ head_dim: 6 }, /head_dim 6 is not a multiple of 4/],
  [{ intermediate_size: -1 }, /intermediate_size is -1, not a size/],
  [{ num_hidden_layers: '5' }, /num_hidden_layers is "5", not a size/],
  [{ rms_norm_eps: 0 }, /rms_norm_eps is 0, not a positive number/],
  [{ tie_word_embeddings: 'yes' }, /tie_word_embeddings is "yes"/],
])('%j is refused by name', (more, message) => {
  expect(() => read(more)).toThrow(message);
});
