import { dequantise, isGgmlType } from './ggml-types.ts';
import type { Gguf } from './gguf.ts';
import type { GgufArchitecture } from './gguf-architecture.ts';
import { llama3Scaling } from './llama3-rope.ts';

type Raw = Readonly<Record<string, unknown>>;

/** Keys that are read here, and those that change nothing in the forward pass. */
const KNOWN = new Set([
  ...['context_length', 'embedding_length', 'block_count', 'feed_forward_length', 'vocab_size'],
  ...['attention.head_count', 'attention.head_count_kv', 'attention.key_length', 'attention.value_length'],
  ...['attention.layer_norm_rms_epsilon', 'attention.sliding_window', 'expert_count', 'expert_used_count'],
  ...['rope.freq_base', 'rope.dimension_count', 'rope.scale_linear', 'rope.scaling.type', 'rope.scaling.factor'],
  ...['rope.scaling.original_context_length', 'rope.scaling.attn_factor', 'rope.scaling.finetuned'],
]);

const PARTS: Readonly<Record<string, string>> = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
};

const OUTER: Readonly<Record<string, string>> = {
  'token_embd.weight': 'model.embed_tokens.weight',
  'output_norm.weight': 'model.norm.weight',
  'output.weight': 'lm_head.weight',
};

/** Factors by which Llama 3's rope divides its frequencies; they take the place of metadata. */
const ROPE_FACTORS = 'rope_freqs.weight';

/** GGUF's "llama": Llama, SmolLM2 and what else is LlamaForCausalLM. */
export const LLAMA: GgufArchitecture = {
  async config(gguf) {
    const { metadata } = gguf;
    const read = (key: string) => metadata.get(`llama.${key}`);
    for (const key of metadata.keys) {
      if (key.startsWith('llama.') && !KNOWN.has(key.slice(6))) metadata.fail(key, 'is not known');
    }
    const optionalSize = (key: string): number | undefined => {
      const value = metadata.count(`llama.${key}`);
      return value === 0 ? metadata.fail(`llama.${key}`, 'is 0, not a size') : value;
    };
    const size = (key: string): number => optionalSize(key) ?? metadata.fail(`llama.${key}`, 'is missing');
    const same = (key: string, value: number): void => {
      if ((metadata.count(`llama.${key}`) ?? value) !== value) {
        metadata.fail(`llama.${key}`, `is ${read(key)}; only the head's size, ${value}, is known`);
      }
    };
    if (metadata.count('llama.expert_count')) metadata.fail('llama.expert_count', `is ${read('expert_count')}, not 0`);

    const hiddenSize = size('embedding_length');
    const heads = size('attention.head_count');
    const headSize = optionalSize('attention.key_length') ?? hiddenSize / heads;
    if (headSize % 2 !== 0) {
      metadata.fail('llama.attention.head_count', `is ${heads}: heads of ${headSize} numbers can't be rotated`);
    }
    same('attention.value_length', headSize);
    same('rope.dimension_count', headSize);
    const epsilon = metadata.number('llama.attention.layer_norm_rms_epsilon');
    const window = metadata.count('llama.attention.sliding_window');
    return {
      architectures: ['LlamaForCausalLM'],
      model_type: 'llama',
      vocab_size: optionalSize('vocab_size') ?? metadata.strings('tokenizer.ggml.tokens')?.length,
      max_position_embeddings: size('context_length'),
      hidden_size: hiddenSize,
      intermediate_size: size('feed_forward_length'),
      num_hidden_layers: size('block_count'),
      num_attention_heads: heads,
      num_key_value_heads: optionalSize('attention.head_count_kv') ?? heads,
      head_dim: headSize,
      rms_norm_eps: shortest(epsilon ?? metadata.fail('llama.attention.layer_norm_rms_epsilon', 'is missing')),
      rope_theta: shortest(metadata.number('llama.rope.freq_base') ?? 10_000),
      rope_scaling: await ropeScaling(gguf, headSize),
      hidden_act: 'silu',
      tie_word_embeddings: !gguf.tensors.has('output.weight'),
      attention_bias: [...gguf.tensors.keys()].some((name) => /^blk\.\d+\.attn_\w+\.bias$/.test(name)),
      mlp_bias: [...gguf.tensors.keys()].some((name) => /^blk\.\d+\.ffn_\w+\.bias$/.test(name)),
      ...(window ? { sliding_window: window } : {}),
    };
  },

  tensorName(ggufName) {
    if (Object.hasOwn(OUTER, ggufName)) return OUTER[ggufName];
    const [, layer, part, kind] = /^blk\.(\d+)\.(\w+)\.(weight|bias)$/.exec(ggufName) ?? [];
    if (part === undefined || !Object.hasOwn(PARTS, part)) return undefined;
    return `model.layers.${layer}.${PARTS[part]}.${kind}`;
  },

  interleavedHeads(ggufName, config) {
    const [, part] = /^blk\.\d+\.(attn_[qk])\.(?:weight|bias)$/.exec(ggufName) ?? [];
    if (part === 'attn_q') return config.num_attention_heads as number;
    if (part === 'attn_k') return config.num_key_value_heads as number;
    return undefined;
  },

  *required(config) {
    const value = (key: string) => config[key] as number;
    const hidden = value('hidden_size');
    const queries = value('num_attention_heads') * value('head_dim');
    const keys = value('num_key_value_heads') * value('head_dim');
    const inner = value('intermediate_size');
    yield ['token_embd.weight', [value('vocab_size'), hidden]];
    for (let layer = 0; layer < value('num_hidden_layers'); layer++) {
      const biases = (wanted: unknown, part: string, rows: number) =>
        wanted ? [[`blk.${layer}.${part}.bias`, [rows]] as const] : [];
      yield [`blk.${layer}.attn_norm.weight`, [hidden]];
      yield [`blk.${layer}.attn_q.weight`, [queries, hidden]];
      yield [`blk.${layer}.attn_k.weight`, [keys, hidden]];
      yield [`blk.${layer}.attn_v.weight`, [keys, hidden]];
      yield [`blk.${layer}.attn_output.weight`, [hidden, queries]];
      yield [`blk.${layer}.ffn_norm.weight`, [hidden]];
      yield [`blk.${layer}.ffn_gate.weight`, [inner, hidden]];
      yield [`blk.${layer}.ffn_up.weight`, [inner, hidden]];
      yield [`blk.${layer}.ffn_down.weight`, [hidden, inner]];
      yield* biases(config.attention_bias, 'attn_q', queries);
      yield* biases(config.attention_bias, 'attn_k', keys);
      yield* biases(config.attention_bias, 'attn_v', keys);
      yield* biases(config.attention_bias, 'attn_output', hidden);
      yield* biases(config.mlp_bias, 'ffn_gate', inner);
      yield* biases(config.mlp_bias, 'ffn_up', inner);
      yield* biases(config.mlp_bias, 'ffn_down', hidden);
    }
    yield ['output_norm.weight', [hidden]];
    if (config.tie_word_embeddings === false) yield ['output.weight', [value('vocab_size'), hidden]];
  },
};

async function ropeScaling(gguf: Gguf, headSize: number): Promise<Raw | null> {
  const { metadata } = gguf;
  const factors = gguf.tensors.get(ROPE_FACTORS);
  const kind = metadata.string('llama.rope.scaling.type') ?? 'none';
  const linear = metadata.number('llama.rope.scale_linear');
  const factor = metadata.number('llama.rope.scaling.factor') ?? linear ?? 1;
  const original = metadata.count('llama.rope.scaling.original_context_length');
  if (factors) {
    if (kind !== 'none') metadata.fail('llama.rope.scaling.type', `is ${kind}, beside ${ROPE_FACTORS}`);
    const values = isGgmlType(factors.dtype) ? dequantise(factors.dtype, await gguf.read(factors)) : [];
    const theta = metadata.number('llama.rope.freq_base') ?? 10_000;
    return (
      llama3Scaling(values, headSize, theta) ??
      metadata.fail(ROPE_FACTORS, "holds factors that are not those of Llama 3's rope")
    );
  }
  if (kind === 'linear' || (kind === 'none' && linear !== undefined)) {
    return factor === 1 ? null : { rope_type: 'linear', factor: shortest(factor) };
  }
  if (kind === 'none') return null;
  if (kind !== 'yarn')
    metadata.fail('llama.rope.scaling.type', `is ${JSON.stringify(kind)}; known: none, linear, yarn`);
  const attention = metadata.number('llama.rope.scaling.attn_factor');
  return {
    rope_type: 'yarn',
    factor: shortest(factor),
    ...(original === undefined ? {} : { original_max_position_embeddings: original }),
    ...(attention === undefined ? {} : { attention_factor: shortest(attention) }),
  };
}

/** The shortest decimal that is the same single: config.json's 1e-5 where the file has 9.999999747378752e-6. */
function shortest(value: number): number {
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}
