import type { Checkpoint, TensorInfo } from '../../checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../checkpoint/model-config.ts';
import { Random } from '../../gpu/testing/random.ts';

export interface TinyShape {
  readonly layers?: number;
  readonly hiddenSize?: number;
  readonly intermediateSize?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly headSize?: number;
  readonly vocabSize?: number;
  readonly contextLength?: number;
  readonly tiedHead?: boolean;
  /** A Qwen3 MoE whose every other layer, from the second on, has so many experts of `intermediateSize`, two a row. */
  readonly experts?: number;
}

export interface TinyModel {
  readonly config: ModelConfig;
  readonly checkpoint: Checkpoint;
}

/** A small Llama, or mixture of experts, with random weights, in memory: one layer of 16 columns unless `shape` says otherwise. */
export function tinyModel(seed: number, shape: TinyShape = {}): TinyModel {
  const { layers = 1, hiddenSize = 16, intermediateSize = 24, heads = 4, kvHeads = 2, headSize = 4 } = shape;
  const { vocabSize = 40, contextLength = 256, tiedHead = false, experts = 0 } = shape;
  const random = new Random(seed);
  const tensors = new Map<string, { info: TensorInfo; bytes: Uint8Array }>();
  let offset = 0;
  const add = (name: string, rows: number, columns?: number) => {
    const count = rows * (columns ?? 1);
    // Norms around 1; products that keep the size of what they take, so that attention and logits are far from flat.
    const values = random.normals(count, columns ? 1.5 / Math.sqrt(columns) : 0.2);
    if (!columns) for (let i = 0; i < count; i++) values[i]! += 1;
    const shapeOf = columns ? [rows, columns] : [rows];
    const info = { name, dtype: 'F32', shape: shapeOf, offset, byteLength: values.byteLength };
    offset += values.byteLength;
    tensors.set(name, { info, bytes: new Uint8Array(values.buffer) });
  };
  add('model.embed_tokens.weight', vocabSize, hiddenSize);
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `model.layers.${layer}`;
    add(`${prefix}.input_layernorm.weight`, hiddenSize);
    add(`${prefix}.self_attn.q_proj.weight`, heads * headSize, hiddenSize);
    add(`${prefix}.self_attn.k_proj.weight`, kvHeads * headSize, hiddenSize);
    add(`${prefix}.self_attn.v_proj.weight`, kvHeads * headSize, hiddenSize);
    add(`${prefix}.self_attn.o_proj.weight`, hiddenSize, heads * headSize);
    add(`${prefix}.post_attention_layernorm.weight`, hiddenSize);
    if (experts > 0) for (const norm of ['q', 'k']) add(`${prefix}.self_attn.${norm}_norm.weight`, headSize);
    const mixture = experts > 0 && layer % 2 === 1;
    if (mixture) add(`${prefix}.mlp.gate.weight`, experts, hiddenSize);
    for (let expert = 0; expert < (mixture ? experts : 1); expert++) {
      const network = mixture ? `${prefix}.mlp.experts.${expert}` : `${prefix}.mlp`;
      add(`${network}.gate_proj.weight`, intermediateSize, hiddenSize);
      add(`${network}.up_proj.weight`, intermediateSize, hiddenSize);
      add(`${network}.down_proj.weight`, hiddenSize, intermediateSize);
    }
  }
  add('model.norm.weight', hiddenSize);
  if (!tiedHead) add('lm_head.weight', vocabSize, hiddenSize);

  const config = parseModelConfig(
    JSON.stringify({
      ...(experts > 0
        ? {
            ...{ architectures: ['Qwen3MoeForCausalLM'], model_type: 'qwen3_moe', decoder_sparse_step: 2 },
            ...{ num_experts: experts, num_experts_per_tok: 2, moe_intermediate_size: intermediateSize },
            ...{ norm_topk_prob: false, use_sliding_window: false },
          }
        : { architectures: ['LlamaForCausalLM'], model_type: 'llama' }),
      hidden_size: hiddenSize,
      intermediate_size: intermediateSize,
      num_hidden_layers: layers,
      num_attention_heads: heads,
      num_key_value_heads: kvHeads,
      head_dim: headSize,
      vocab_size: vocabSize,
      max_position_embeddings: contextLength,
      rms_norm_eps: 1e-5,
      rope_theta: 10_000,
      hidden_act: 'silu',
      tie_word_embeddings: tiedHead,
      bos_token_id: 1,
      eos_token_id: 2,
    }),
    'config.json',
  );
  const checkpoint: Checkpoint = {
    name: 'tiny model',
    tensors: new Map([...tensors].map(([name, { info }]) => [name, info])),
    async read(tensor, from = 0, length = tensor.byteLength - from) {
      return tensors.get(tensor.name)!.bytes.subarray(from, from + length);
    },
  };
  return { config, checkpoint };
}
