import { describe, expect, test } from 'vitest';
import { checkServed, DECODER_NAMES } from '../../checkpoint/check-served.ts';
import { ENCODER_TASKS } from '../../checkpoint/model-task.ts';
import { MOST_SEGMENTS } from '../../gpu/segment-entries.ts';
import { DECODERS } from '../architecture-of.ts';
import { ENCODERS } from '../encoders.ts';
import { attention, type Keys, read, refusal, TWO_KV } from './testing/read-decoder.ts';

const GPT2: Keys = { model_type: 'gpt2', n_embd: 64, n_head: 8, n_layer: 3, n_positions: 128, vocab_size: 512 };

test('what a relay takes is what a node serves', () => {
  const names = DECODERS.flatMap(({ names }) => names);
  expect([...DECODER_NAMES].sort()).toEqual(names.sort());
  expect(Object.keys(ENCODER_TASKS).sort()).toEqual(ENCODERS.flatMap(({ names }) => names).sort());
  for (const name of [...names, 'BertModel']) checkServed([name]);
  expect(() => checkServed(['FalconForCausalLM'])).toThrow(
    /are FalconForCausalLM; known: GPT2LMHeadModel, .*BertModel/,
  );
});

test('an unknown architecture is refused with the list of known ones', () => {
  const message = refusal('FalconForCausalLM', {});
  expect(message).toMatch(
    /^config\.json: architectures are FalconForCausalLM; known: GPT2LMHeadModel, Gemma2ForCausalLM, /,
  );
  for (const name of ['GPT2LMHeadModel', 'LlamaForCausalLM', 'Qwen3MoeForCausalLM', 'SmolLM3ForCausalLM']) {
    expect(message).toContain(name);
  }
  // Of those that read images only Gemma 3 has a text part that is served.
  const both = { text_config: {}, vision_config: {} };
  expect(refusal('Mistral3ForConditionalGeneration', both)).toContain('are Mistral3ForConditionalGeneration; known');
});

describe.each([
  ['LlamaForCausalLM', {}],
  ['MistralForCausalLM', TWO_KV],
  ['MixtralForCausalLM', TWO_KV],
  ['Qwen2ForCausalLM', TWO_KV],
  ['Qwen3ForCausalLM', TWO_KV],
  ['Qwen3MoeForCausalLM', TWO_KV],
  ['Gemma2ForCausalLM', {}],
  ['Gemma3ForCausalLM', {}],
  ['Phi3ForCausalLM', {}],
  ['SmolLM3ForCausalLM', {}],
  ['Olmo2ForCausalLM', {}],
  ['GraniteForCausalLM', {}],
])('%s', (architecture, needs) => {
  const readIt = (more: Keys) => read(architecture, { ...needs, ...more });
  const refuse = (more: Keys) => refusal(architecture, { ...needs, ...more });

  test('a setting that it does not know is refused by name, and none where it is off', () => {
    expect(refuse({ logit_scale: 2 })).toMatch(/config\.json: logit_scale is 2, a setting that is not served/);
    expect(refuse({ quantization_config: { quant_method: 'awq' } })).toMatch(/quantization_config is \{/);
    expect(refuse({ rope_interleaved: true })).toMatch(/rope_interleaved is true/);
    const off = { logit_scale: null, rope_interleaved: false, quantization_config: null };
    expect(readIt(off)).toEqual(readIt({}));
    const free = { torch_dtype: 'bfloat16', dtype: 'float32', use_cache: true, transformers_version: '5.0.0' };
    expect(readIt({ ...free, attention_dropout: 0.1, bos_token_id: 3 })).toEqual(readIt({}));
  });

  test('positions that see those after them are refused, though the setting is off', () => {
    expect(refuse({ is_causal: false })).toMatch(/is_causal is false; only true is served/);
    expect(readIt({ is_causal: true })).toEqual(readIt({}));
  });

  test("settings of generation and of earlier files' dumps change nothing", () => {
    const generation = { num_beams: 1, top_k: 50, temperature: 1, min_length: 0, diversity_penalty: 0 };
    const dump = { pruned_heads: {}, tokenizer_class: 'AnyTokenizer', is_encoder_decoder: false, prefix: null };
    expect(readIt({ ...generation, ...dump })).toEqual(readIt({}));
    expect(refuse({ pruned_heads: { 1: [2] } })).toMatch(/pruned_heads is \{/);
  });

  test('values that cannot be are refused by key', () => {
    expect(refuse({ num_hidden_layers: 1e9 })).toMatch(/num_hidden_layers is 1000000000, more layers than/);
    expect(refuse({ num_attention_heads: 7, num_key_value_heads: 3, head_dim: 8 })).toMatch(/does not divide/);
    expect(refuse({ num_key_value_heads: 0 })).toMatch(/num_key_value_heads is 0, not a size/);
    expect(refuse({ head_dim: 10 })).toMatch(/head_dim 10 is not a multiple of 4/);
    expect(refuse({ rms_norm_eps: 'small' })).toMatch(/rms_norm_eps is "small", not a positive number/);
    expect(refuse({ rope_theta: -1 })).toMatch(/rope_theta is -1/);
    expect(refuse({ tie_word_embeddings: 'yes' })).toMatch(/tie_word_embeddings is "yes", neither true nor false/);
    expect(refuse({ intermediate_size: undefined })).toMatch(/intermediate_size is undefined, not a size/);
    const key = architecture.startsWith('Gemma') ? 'hidden_activation' : 'hidden_act';
    expect(refuse({ [key]: 'mish' })).toMatch(/is "mish"; known: silu, /);
    expect(refuse({ rope_scaling: { type: 'mrope', mrope_section: [1, 1, 2] } })).toMatch(
      /rope_scaling\.type is "mrope"; known: default, /,
    );
    expect(refuse({ rope_scaling: 'yarn' })).toMatch(/rope_scaling is "yarn", not an object/);
  });

  test('as many KV heads as heads where they are null, a head size that follows where it is', () => {
    const config = readIt({ num_key_value_heads: null, head_dim: null });
    expect([attention(config).kvHeads, attention(config).headSize]).toEqual([8, 8]);
    expect(attention(readIt({ head_dim: 20 })).headSize).toBe(20);
  });
});

describe('defaults of absent keys are those of the reference', () => {
  test.each<[string, Keys, Keys]>([
    ['LlamaForCausalLM', {}, { tied: false, epsilon: 1e-6, theta: 10_000, kv: 8, size: 8 }],
    ['MistralForCausalLM', {}, { tied: false, epsilon: 1e-6, theta: 10_000, kv: 8, size: 8 }],
    ['MixtralForCausalLM', {}, { tied: false, epsilon: 1e-5, theta: 1e6, kv: 8, size: 8 }],
    [
      'Qwen2ForCausalLM',
      { num_attention_heads: 32, hidden_size: 256 },
      { tied: false, epsilon: 1e-6, theta: 10_000, kv: 32, size: 8 },
    ],
    ['Qwen3ForCausalLM', { num_attention_heads: 32 }, { tied: false, epsilon: 1e-6, theta: 10_000, kv: 32, size: 128 }],
    ['Qwen3MoeForCausalLM', {}, { tied: false, epsilon: 1e-6, theta: 10_000, kv: 4, size: 8 }],
    ['Gemma2ForCausalLM', {}, { tied: true, epsilon: 1e-6, theta: 10_000, kv: 4, size: 256 }],
    ['Gemma3ForCausalLM', {}, { tied: true, epsilon: 1e-6, theta: 10_000, kv: 4, size: 256 }],
    ['Phi3ForCausalLM', {}, { tied: false, epsilon: 1e-5, theta: 10_000, kv: 8, size: 8 }],
    ['SmolLM3ForCausalLM', {}, { tied: true, epsilon: 1e-6, theta: 2e6, kv: 4, size: 8 }],
    ['Olmo2ForCausalLM', {}, { tied: false, epsilon: 1e-5, theta: 10_000, kv: 8, size: 8 }],
    ['GraniteForCausalLM', {}, { tied: false, epsilon: 1e-6, theta: 10_000, kv: 8, size: 8 }],
  ])('%s', (architecture, more, expected) => {
    const config = read(architecture, more);
    const { kvHeads, headSize } = attention(config);
    const rope = config.ropes[0]!;
    // θ from the second pair's frequency.
    const theta = rope.frequencies[1]! ** (-rope.rotated / 2);
    expect(theta / (expected.theta as number)).toBeCloseTo(1, 4);
    expect({ tied: config.tiedHead, epsilon: config.norm.epsilon, kv: kvHeads, size: headSize }).toEqual({
      ...{ tied: expected.tied, epsilon: expected.epsilon, kv: expected.kv, size: expected.size },
    });
  });

  test('GPT-2', () => {
    const config = read('GPT2LMHeadModel', {}, GPT2);
    expect(config).toMatchObject({ hiddenSize: 64, contextLength: 128, learnedPositions: 128, tiedHead: true });
    expect(config.norm).toEqual({ kind: 'layer', epsilon: 1e-5, gainOffset: 0 });
    expect(config.layers).toHaveLength(3);
    expect(config.layers[0]!.feedForward).toEqual({ kind: 'plain', size: 256, activation: 'gelu-tanh', bias: true });
    expect(attention(config).scale).toBe(8 ** -0.5);
    expect(attention(config).rope).toBeUndefined();
    expect(read('GPT2LMHeadModel', { n_inner: 100 }, GPT2).layers[0]!.feedForward.size).toBe(100);
  });
});

test("Qwen3-Coder's file speaks of what it does not have", () => {
  const own = { qkv_bias: false, use_qk_norm: true, shared_expert_intermediate_size: 0 };
  expect(read('Qwen3MoeForCausalLM', { ...TWO_KV, ...own })).toEqual(read('Qwen3MoeForCausalLM', TWO_KV));
  expect(refusal('Qwen3MoeForCausalLM', { shared_expert_intermediate_size: 512 })).toMatch(/is 512; only 0 is served/);
  expect(refusal('Qwen3MoeForCausalLM', { use_qk_norm: false })).toMatch(/use_qk_norm is false; only true/);
});

describe('GPT-2', () => {
  test('scales attention as it is told', () => {
    const scales = (more: Keys) => read('GPT2LMHeadModel', more, GPT2).layers.map((layer) => layer.attention.scale);
    expect(scales({ scale_attn_weights: false })).toEqual([1, 1, 1]);
    const [first] = scales({});
    expect(scales({ scale_attn_by_inverse_layer_idx: true })).toEqual([first, first! / 2, first! / 3]);
  });

  test('refuses what it does not know', () => {
    expect(refusal('GPT2LMHeadModel', { add_cross_attention: true }, GPT2)).toMatch(/add_cross_attention is true/);
    expect(refusal('GPT2LMHeadModel', { n_head: 7 }, GPT2)).toMatch(/n_head 7 does not divide n_embd 64/);
    expect(refusal('GPT2LMHeadModel', { n_head: 32 }, GPT2)).toMatch(/= 2 numbers, not a multiple of 4/);
    expect(refusal('GPT2LMHeadModel', { rotary_dim: 64 }, GPT2)).toMatch(/rotary_dim is 64/);
    expect(refusal('GPT2LMHeadModel', { activation_function: 'mish' }, GPT2)).toMatch(/activation_function is "mish"/);
    const released = { n_ctx: 128, attn_pdrop: 0.1, summary_type: 'cls_index', task_specific_params: { a: 1 } };
    expect(read('GPT2LMHeadModel', released, GPT2)).toEqual(read('GPT2LMHeadModel', {}, GPT2));
  });
});

describe('norms, scales and biases', () => {
  test("Qwen3's queries and keys are normed a head, OLMo 2's a row, others' not", () => {
    const norms = (name: string) => attention(read(name, TWO_KV)).qkNorm;
    expect(['Qwen3ForCausalLM', 'Qwen3MoeForCausalLM', 'Gemma3ForCausalLM'].map(norms)).toEqual([
      'head',
      'head',
      'head',
    ]);
    expect(norms('Olmo2ForCausalLM')).toBe('row');
    expect(['LlamaForCausalLM', 'Qwen2ForCausalLM', 'Gemma2ForCausalLM'].map(norms)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('Granite divides logits, and its attention multiplier takes the place of 1/√headSize', () => {
    const config = read('GraniteForCausalLM', {
      ...{ logits_scaling: 4, embedding_multiplier: 12, residual_multiplier: 0.22, attention_multiplier: 0.0078125 },
    });
    expect([config.logitsScale, config.embeddingScale, config.layers[3]!.residualScale]).toEqual([0.25, 12, 0.22]);
    expect(attention(config).scale).toBe(0.0078125);
    expect(attention(read('GraniteForCausalLM')).scale).toBe(1);
  });

  test("Gemma 2's caps: absent ones are the reference's, either may be null", () => {
    const caps = (more: Keys) => {
      const config = read('Gemma2ForCausalLM', more);
      return [attention(config).cap, config.logitsCap];
    };
    expect(caps({})).toEqual([50, 30]);
    expect(caps({ attn_logit_softcapping: null })).toEqual([undefined, 30]);
    expect(caps({ final_logit_softcapping: null })).toEqual([50, undefined]);
    const gemma3 = read('Gemma3ForCausalLM');
    expect([attention(gemma3).cap, gemma3.logitsCap]).toEqual([undefined, undefined]);
  });

  test("Gemma's gains are 1 + w, embeddings scaled, and activation that of hidden_activation", () => {
    for (const name of ['Gemma2ForCausalLM', 'Gemma3ForCausalLM']) {
      const config = read(name, { hidden_act: undefined, query_pre_attn_scalar: 100 });
      expect([config.norm.gainOffset, config.embeddingScale, attention(config).scale]).toEqual([1, 8, 0.1]);
      expect(config.layers[0]).toMatchObject({ norms: 'both', feedForward: { activation: 'gelu-tanh' } });
    }
    const both = { hidden_act: 'gelu', hidden_activation: 'gelu_pytorch_tanh' };
    expect(read('Gemma2ForCausalLM', both)).toEqual(read('Gemma2ForCausalLM'));
    expect(refusal('Gemma3ForCausalLM', { use_bidirectional_attention: true })).toMatch(/use_bidirectional_attention/);
  });

  test('biases are where the family has them, or says so', () => {
    const biases = (name: string, more: Keys = {}) => {
      const { attention, feedForward } = read(name, { ...TWO_KV, ...more }).layers[0]!;
      return [attention.qkvBias, attention.outputBias, feedForward.kind !== 'experts' && feedForward.bias];
    };
    expect(biases('LlamaForCausalLM')).toEqual([false, false, false]);
    expect(biases('LlamaForCausalLM', { attention_bias: true })).toEqual([true, true, false]);
    expect(biases('LlamaForCausalLM', { mlp_bias: true })).toEqual([false, false, true]);
    expect(biases('Qwen2ForCausalLM')).toEqual([true, false, false]);
    expect(refusal('MistralForCausalLM', { ...TWO_KV, attention_bias: true })).toMatch(/attention_bias is true/);
    expect(refusal('Phi3ForCausalLM', { attention_bias: true })).toMatch(/attention_bias is true; only false/);
  });

  test('a key that other files have for the network that it always is may say that, and nothing else', () => {
    expect(read('LlamaForCausalLM', { activation: 'swiglu' })).toEqual(read('LlamaForCausalLM'));
    expect(refusal('LlamaForCausalLM', { activation: 'geglu' })).toMatch(
      /activation is "geglu"; only "swiglu" is served/,
    );
    expect(refusal('Qwen3ForCausalLM', { ...TWO_KV, use_qk_norm: false })).toMatch(/use_qk_norm is false; only true/);
  });

  test('pretraining_tp is refused where the reference would compute otherwise, not where it reads nothing of it', () => {
    expect(refusal('LlamaForCausalLM', { pretraining_tp: 2 })).toMatch(/pretraining_tp is 2; only 1 is served/);
    expect(read('SmolLM3ForCausalLM', { pretraining_tp: 2 })).toEqual(read('SmolLM3ForCausalLM'));
  });
});

describe('experts', () => {
  const kinds = (more: Keys) =>
    read('Qwen3MoeForCausalLM', { ...TWO_KV, ...more }).layers.map(({ feedForward }) => feedForward.kind === 'experts');

  test('Qwen3 has dense layers between, by step and by list', () => {
    expect(kinds({})).toEqual([true, true, true, true, true, true, true, true]);
    expect(kinds({ decoder_sparse_step: 3 })).toEqual([false, false, true, false, false, true, false, false]);
    expect(kinds({ mlp_only_layers: [0, 7] })).toEqual([false, true, true, true, true, true, true, false]);
    expect(refusal('Qwen3MoeForCausalLM', { ...TWO_KV, mlp_only_layers: [8] })).toMatch(/mlp_only_layers is \[8\]/);
    const { layers } = read('Qwen3MoeForCausalLM', { ...TWO_KV, mlp_only_layers: [0] });
    expect(layers[0]!.feedForward).toEqual({ kind: 'gated', size: 172, activation: 'silu', bias: false });
    expect(layers[1]!.feedForward).toEqual({
      ...{ kind: 'experts', experts: 128, chosen: 8, size: 768, activation: 'silu', normalised: false },
    });
  });

  test('norm_topk_prob divides by the sum of the chosen; Mixtral always does', () => {
    const of = (name: string, more: Keys) => read(name, { ...TWO_KV, ...more }).layers[0]!.feedForward;
    expect(of('Qwen3MoeForCausalLM', { norm_topk_prob: true, num_experts: 6, num_experts_per_tok: 3 })).toMatchObject({
      ...{ experts: 6, chosen: 3, normalised: true },
    });
    expect(of('MixtralForCausalLM', {})).toMatchObject({ experts: 8, chosen: 2, size: 172, normalised: true });
    expect(refusal('MixtralForCausalLM', { num_experts_per_tok: 9 })).toMatch(/num_experts_per_tok is 9, of 8 experts/);
    expect(refusal('MixtralForCausalLM', { num_local_experts: MOST_SEGMENTS + 1 })).toMatch(
      /num_local_experts is 1025, more experts than 1024/,
    );
    expect(of('MixtralForCausalLM', { num_local_experts: MOST_SEGMENTS })).toMatchObject({ experts: 1024 });
  });
});
