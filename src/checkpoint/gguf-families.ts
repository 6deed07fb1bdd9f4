import type { GgufArchitecture } from './gguf-architecture.ts';
import { biasesOf, type GgufFamily, type GgufSizes, ggufDecoder } from './gguf-decoder.ts';
import { ggufBert } from './gguf-encoder.ts';
import { GgufKeys } from './gguf-keys.ts';
import { gpt2Tensors } from './gguf-tensors.ts';

/** A family whose biases the file shows, with Llama's keys for them. */
function withBiases(keys: GgufKeys, mlp: boolean): Pick<Required<GgufFamily>, 'config' | 'shape'> {
  const { attention, feedForward } = biasesOf(keys);
  return {
    config: { hidden_act: 'silu', attention_bias: attention, ...(mlp ? { mlp_bias: feedForward } : {}) },
    shape: { qkvBias: attention, outputBias: attention, ...(mlp ? { feedForwardBias: feedForward } : {}) },
  };
}

/** Llama, SmolLM2 and what else is LlamaForCausalLM; Mistral where there is a window, Mixtral where there are experts. */
const llama = ggufDecoder('llama', (keys) => {
  // The first files say in which order rows of queries and keys are: that of all files since.
  keys.only('tensor_data_layout', 'Meta AI original pth');
  const count = keys.count('expert_count') ?? 0;
  const chosen = keys.count('expert_used_count');
  const window = keys.count('attention.sliding_window');
  const sliding = window ? { sliding_window: window } : { sliding_window: null };
  if (count > 0) {
    if (!chosen) keys.fail('expert_used_count', 'is missing');
    const stacked = keys.gguf.tensors.has('blk.0.ffn_gate_exps.weight');
    return {
      architecture: 'MixtralForCausalLM',
      modelType: 'mixtral',
      config: { hidden_act: 'silu', ...sliding, num_local_experts: count, num_experts_per_tok: chosen },
      shape: {
        interleaved: true,
        experts: { count, module: 'block_sparse_moe', gate: 'w1', up: 'w3', down: 'w2', stacked },
      },
    };
  }
  if (window) {
    const config = { hidden_act: 'silu', ...sliding };
    return { architecture: 'MistralForCausalLM', modelType: 'mistral', config, shape: { interleaved: true } };
  }
  const { config, shape } = withBiases(keys, true);
  return { architecture: 'LlamaForCausalLM', modelType: 'llama', config, shape: { ...shape, interleaved: true } };
});

/** Written as Llama is, rows interleaved too. Which layers don't rotate is not in the file: every fourth, as released. */
const smollm3 = ggufDecoder('smollm3', (keys) => {
  const { config, shape } = withBiases(keys, true);
  return {
    architecture: 'SmolLM3ForCausalLM',
    modelType: 'smollm3',
    config: { ...config, no_rope_layer_interval: 4 },
    shape: { ...shape, interleaved: true },
  };
});

const granite = ggufDecoder('granite', (keys) => {
  const { config, shape } = withBiases(keys, true);
  const scale = (key: string) => keys.number(key) ?? 1;
  return {
    architecture: 'GraniteForCausalLM',
    modelType: 'granite',
    config: {
      ...config,
      attention_multiplier: scale('attention.scale'),
      embedding_multiplier: scale('embedding_scale'),
      residual_multiplier: scale('residual_scale'),
      logits_scaling: scale('logit_scale'),
    },
    shape: { ...shape, interleaved: true },
  };
});

const qwen2 = ggufDecoder('qwen2', (keys) => {
  // Early files say it of a family that has none, and engines don't ask.
  keys.boolean('use_parallel_residual');
  return {
    architecture: 'Qwen2ForCausalLM',
    modelType: 'qwen2',
    config: { hidden_act: 'silu' },
    shape: { qkvBias: true },
  };
});

const qwen3 = ggufDecoder('qwen3', (keys) => {
  const { config, shape } = withBiases(keys, false);
  return { architecture: 'Qwen3ForCausalLM', modelType: 'qwen3', config, shape: { ...shape, qkNorm: 'head' } };
});

/** Probabilities of the chosen experts are normalised, which the file doesn't say: llama.cpp always does for it. */
const qwen3Moe = ggufDecoder('qwen3moe', (keys) => {
  const { config, shape } = withBiases(keys, false);
  const count = keys.size('expert_count');
  const size = keys.size('expert_feed_forward_length');
  // Of dense layers, of which these files have none; and of an expert that all tokens share, of which they have none either.
  keys.count('feed_forward_length');
  keys.same('expert_shared_feed_forward_length', 0, 'none');
  return {
    architecture: 'Qwen3MoeForCausalLM',
    modelType: 'qwen3_moe',
    config: {
      ...config,
      num_experts: count,
      num_experts_per_tok: keys.size('expert_used_count'),
      moe_intermediate_size: size,
      norm_topk_prob: true,
    },
    shape: {
      ...shape,
      inner: size,
      qkNorm: 'head',
      experts: { count, module: 'mlp', gate: 'gate_proj', up: 'up_proj', down: 'down_proj', stacked: true },
    },
  };
});

/**
 * What scores are scaled by isn't in the file: heads' size, but for the 27 billion's, which have `largest` layers
 * (https://github.com/ggml-org/llama.cpp, llama-model: f_attention_scale).
 */
function queryScale({ hidden, layers, heads, headSize }: GgufSizes, largest: number): number {
  return layers === largest ? hidden / heads : headSize;
}

/** Which of Gemma 3's layers have a window: one of so many has none, or a list by layers. */
function windowPattern(keys: GgufKeys): Readonly<Record<string, unknown>> {
  const key = 'attention.sliding_window_pattern';
  const listed = keys.booleans(key);
  if (listed === undefined) return { sliding_window_pattern: keys.optionalSize(key) ?? 6 };
  return { layer_types: listed.map((windowed) => (windowed ? 'sliding_attention' : 'full_attention')) };
}

const gemma2 = ggufDecoder('gemma2', (keys, sizes) => ({
  architecture: 'Gemma2ForCausalLM',
  modelType: 'gemma2',
  config: {
    hidden_activation: 'gelu_pytorch_tanh',
    query_pre_attn_scalar: queryScale(sizes, 46),
    // The first files have none of these, which all the released models have.
    attn_logit_softcapping: keys.number('attn_logit_softcapping') ?? 50,
    final_logit_softcapping: keys.number('final_logit_softcapping') ?? 30,
    sliding_window: keys.optionalSize('attention.sliding_window') ?? 4096,
  },
  shape: { norms: 'both', plusOne: true },
}));

const gemma3 = ggufDecoder(
  'gemma3',
  (keys, sizes) => ({
    architecture: 'Gemma3ForCausalLM',
    modelType: 'gemma3_text',
    config: {
      hidden_activation: 'gelu_pytorch_tanh',
      query_pre_attn_scalar: queryScale(sizes, 62),
      final_logit_softcapping: keys.number('final_logit_softcapping') ?? null,
      sliding_window: keys.count('attention.sliding_window') || null,
      ...windowPattern(keys),
      rope_local_base_freq: keys.number('rope.freq_base_swa') ?? 10_000,
    },
    shape: { norms: 'both', plusOne: true, qkNorm: 'head' },
  }),
  { theta: 1_000_000 },
);

const phi3 = ggufDecoder(
  'phi3',
  (keys) => {
    const original = keys.count('rope.scaling.original_context_length');
    return {
      architecture: 'Phi3ForCausalLM',
      modelType: 'phi3',
      config: {
        hidden_act: 'silu',
        sliding_window: keys.count('attention.sliding_window') || null,
        ...(original ? { original_max_position_embeddings: original } : {}),
      },
      shape: { fused: true },
    };
  },
  { partial: true },
);

const olmo2 = ggufDecoder('olmo2', (keys) => {
  const { config, shape } = withBiases(keys, false);
  return {
    architecture: 'Olmo2ForCausalLM',
    modelType: 'olmo2',
    config,
    shape: { ...shape, norms: 'after', qkNorm: 'row' },
  };
});

const gpt2: GgufArchitecture = async (gguf) => {
  const keys = new GgufKeys(gguf, 'gpt2');
  const hidden = keys.size('embedding_length');
  const layers = keys.size('block_count');
  const inner = keys.size('feed_forward_length');
  const positions = keys.size('context_length');
  const vocabulary = keys.optionalSize('vocab_size') ?? gguf.metadata.strings('tokenizer.ggml.tokens')?.length;
  const heads = keys.size('attention.head_count');
  keys.same('attention.head_count_kv', heads, 'as many as heads');
  const tied = !gguf.tensors.has('output.weight');
  const config = {
    architectures: ['GPT2LMHeadModel'],
    model_type: 'gpt2',
    vocab_size: vocabulary,
    n_positions: positions,
    n_embd: hidden,
    n_layer: layers,
    n_head: heads,
    n_inner: inner,
    layer_norm_epsilon: keys.neededNumber('attention.layer_norm_epsilon'),
    activation_function: 'gelu_new',
    tie_word_embeddings: tied,
  };
  keys.refuseOthers();
  const shape = { vocabulary: vocabulary ?? 0, hidden, layers, inner, positions, tied };
  return { config, tensors: gpt2Tensors(shape), spent: [] };
};

/** By GGUF's general.architecture. */
export const GGUF_ARCHITECTURES: Readonly<Record<string, GgufArchitecture>> = {
  ...{ llama, smollm3, granite, qwen2, qwen3, qwen3moe: qwen3Moe, gemma2, gemma3, phi3, olmo2, gpt2, bert: ggufBert },
};
