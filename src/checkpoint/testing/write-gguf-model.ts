import type { Checkpoint, TensorInfo } from '../checkpoint.ts';
import { type Written, type WrittenTensor, writeGguf } from './write-gguf.ts';

type Raw = Readonly<Record<string, unknown>>;

/** Hugging Face's names, and the file's (https://github.com/ggml-org/llama.cpp, gguf-py: tensor_mapping). */
const OUTER: Readonly<Record<string, string>> = {
  'model.embed_tokens': 'token_embd',
  'model.norm': 'output_norm',
  lm_head: 'output',
  'transformer.wte': 'token_embd',
  'transformer.wpe': 'position_embd',
  'transformer.ln_f': 'output_norm',
};

const PARTS: Readonly<Record<string, string>> = {
  input_layernorm: 'attn_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.qkv_proj': 'attn_qkv',
  'self_attn.o_proj': 'attn_output',
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  pre_feedforward_layernorm: 'ffn_norm',
  post_feedforward_layernorm: 'post_ffw_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.gate_up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
  'mlp.gate': 'ffn_gate_inp',
  'block_sparse_moe.gate': 'ffn_gate_inp',
  'attn.c_attn': 'attn_qkv',
  'attn.c_proj': 'attn_output',
  'mlp.c_fc': 'ffn_up',
  'mlp.c_proj': 'ffn_down',
  ln_1: 'attn_norm',
  ln_2: 'ffn_norm',
};

const EXPERTS: Readonly<Record<string, string>> = {
  ...{ gate_proj: 'ffn_gate', up_proj: 'ffn_up', down_proj: 'ffn_down' },
  ...{ w1: 'ffn_gate', w3: 'ffn_up', w2: 'ffn_down' },
};

/** What an architecture's files do to tensors, as llama.cpp's converter does. */
export interface GgufConversion {
  readonly architecture: string;
  /** Rows of q and k in interleaved order. */
  readonly permuted?: boolean;
  /** Norms + 1. */
  readonly plusOne?: boolean;
  /** Experts one below the other in one tensor. */
  readonly stacked?: boolean;
  /** More of the metadata, under the architecture's name. */
  readonly metadata?: Readonly<Record<string, Written>>;
}

/** Writes a small float32 checkpoint of Hugging Face's as a GGUF file. */
export async function writeGgufModel(checkpoint: Checkpoint, raw: Raw, how: GgufConversion): Promise<Uint8Array> {
  const tensors: [string, WrittenTensor][] = [];
  const stacks = new Map<string, { shape: readonly number[]; slices: Float32Array[] }>();
  for (const tensor of checkpoint.tensors.values()) {
    const values = await convert(checkpoint, tensor, raw, how);
    const expert = /^model\.layers\.(\d+)\.\w+\.experts\.(\d+)\.(\w+)\.weight$/.exec(tensor.name);
    const turned = /\.c_\w+\.weight$/.test(tensor.name);
    const shape = turned ? tensor.shape.toReversed() : tensor.shape;
    if (!expert) {
      tensors.push([ggufName(tensor.name, raw), written(values, shape)]);
      continue;
    }
    const [, layer, index, part] = expert;
    const name = `blk.${layer}.${EXPERTS[part!]}`;
    if (!how.stacked) {
      tensors.push([`${name}.${index}.weight`, written(values, shape)]);
      continue;
    }
    const stack = stacks.get(name) ?? { shape, slices: [] };
    stack.slices[Number(index)] = values;
    stacks.set(name, stack);
  }
  for (const [name, { shape, slices }] of stacks) {
    const all = new Float32Array(slices.length * slices[0]!.length);
    slices.forEach((slice, i) => {
      all.set(slice, i * slice.length);
    });
    tensors.push([`${name}_exps.weight`, written(all, [slices.length, ...shape])]);
  }
  const own = Object.entries({ ...sizes(raw), ...how.metadata }).map(
    ([key, value]) => [`${how.architecture}.${key}`, value] as const,
  );
  const vocabulary = Array.from({ length: raw.vocab_size as number }, (_, id) => `token${id}`);
  return writeGguf({
    metadata: [
      ['general.architecture', how.architecture],
      ...own,
      ['tokenizer.ggml.model', 'gpt2'],
      ['tokenizer.ggml.pre', 'gpt-2'],
      ['tokenizer.ggml.tokens', vocabulary],
      ['tokenizer.ggml.merges', []],
    ],
    tensors,
  });
}

function sizes(raw: Raw): Record<string, Written> {
  const entries = {
    context_length: raw.max_position_embeddings ?? raw.n_positions,
    embedding_length: raw.hidden_size ?? raw.n_embd,
    block_count: raw.num_hidden_layers ?? raw.n_layer,
    feed_forward_length: raw.intermediate_size ?? 4 * (raw.n_embd as number),
    'attention.head_count': raw.num_attention_heads ?? raw.n_head,
    'attention.head_count_kv': raw.num_key_value_heads,
    'attention.key_length': raw.head_dim,
    'attention.value_length': raw.head_dim,
    'attention.layer_norm_rms_epsilon': raw.rms_norm_eps,
    'attention.layer_norm_epsilon': raw.layer_norm_epsilon,
    'rope.freq_base': raw.rope_theta,
  };
  return Object.fromEntries(
    Object.entries(entries).filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
  );
}

function ggufName(name: string, raw: Raw): string {
  if (name.startsWith('rope_')) return `${name}.weight`;
  const [, outer, end] = /^(.*)\.(weight|bias)$/.exec(name)!;
  if (outer! in OUTER) return `${OUTER[outer!]}.${end}`;
  const [, layer, part] = /^(?:model\.layers|transformer\.h)\.(\d+)\.(.*)$/.exec(outer!)!;
  // With norms on inputs alone it stands before the feed-forward network, else behind attention.
  const after = /gemma|olmo2/.test(raw.model_type as string);
  const file = part === 'post_attention_layernorm' ? (after ? 'post_attention_norm' : 'ffn_norm') : PARTS[part!];
  if (file === undefined) throw new Error(`no GGUF name of ${name}`);
  return `blk.${layer}.${file}.${end}`;
}

async function convert(checkpoint: Checkpoint, tensor: TensorInfo, raw: Raw, how: GgufConversion) {
  const values = new Float32Array((await checkpoint.read(tensor)).slice().buffer);
  const { name, shape } = tensor;
  const rows = shape[0]!;
  const columns = shape[1] ?? 1;
  if (how.plusOne && name.endsWith('norm.weight')) return values.map((value) => value + 1);
  if (/\.c_\w+\.weight$/.test(name)) {
    return values.map((_, i) => values[(i % rows) * columns + Math.floor(i / rows)]!);
  }
  const projection = /\.(q|k)_proj\./.exec(name)?.[1];
  if (!how.permuted || projection === undefined) return values;
  const heads = (projection === 'q' ? raw.num_attention_heads : raw.num_key_value_heads) as number;
  // [heads, 2, half] becomes [heads, half, 2].
  const half = rows / heads / 2;
  return values.map((_, i) => {
    const row = Math.floor(i / columns);
    const [head, pair, side] = [Math.floor(row / (2 * half)), Math.floor((row % (2 * half)) / 2), row % 2];
    return values[((head * 2 + side) * half + pair) * columns + (i % columns)]!;
  });
}

function written(values: Float32Array, shape: readonly number[]): WrittenTensor {
  return { type: 'F32', sizes: shape.toReversed(), bytes: new Uint8Array(values.buffer) };
}
