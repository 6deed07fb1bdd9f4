import type { GgufArchitecture, GgufTensor } from './gguf-architecture.ts';
import { GgufKeys } from './gguf-keys.ts';
import { ggufPooling } from './gguf-pooling.ts';

/** Products and norms of one layer: GGUF's names, and Hugging Face's. */
const PARTS = {
  attn_q: 'attention.self.query',
  attn_k: 'attention.self.key',
  attn_v: 'attention.self.value',
  attn_output: 'attention.output.dense',
  attn_output_norm: 'attention.output.LayerNorm',
  ffn_up: 'intermediate.dense',
  ffn_down: 'output.dense',
  layer_output_norm: 'output.LayerNorm',
} as const;

/**
 * `bert`: BERT's encoders and RoBERTa's, whose converter leaves out the positions of padding (https://github.com/ggml-org/llama.cpp,
 * conversion/bert.py). Their activation isn't in the file: GELU, as the models have it.
 */
export const ggufBert: GgufArchitecture = async (gguf) => {
  const keys = new GgufKeys(gguf, 'bert');
  const hidden = keys.size('embedding_length');
  const layers = keys.size('block_count');
  const inner = keys.size('feed_forward_length');
  const positions = keys.size('context_length');
  const heads = keys.size('attention.head_count');
  const vocabulary = keys.optionalSize('vocab_size') ?? gguf.metadata.strings('tokenizer.ggml.tokens')?.length ?? 0;
  const epsilon = keys.neededNumber('attention.layer_norm_epsilon');
  keys.same('attention.head_count_kv', heads, 'as many as heads');
  if (keys.boolean('attention.causal')) keys.fail('attention.causal', 'is true, which no encoder is');
  const pooling = ggufPooling(keys, ['mean', 'cls', 'last']);
  keys.refuseOthers();
  const types = gguf.tensors.get('token_types.weight')?.shape[0] ?? 1;
  const config = {
    architectures: ['BertModel'],
    model_type: 'bert',
    vocab_size: vocabulary,
    max_position_embeddings: positions,
    type_vocab_size: types,
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    layer_norm_eps: epsilon,
    hidden_act: 'gelu',
  };
  const tensors = encoderTensors({ vocabulary, hidden, layers, inner, positions, types });
  return { config, tensors, spent: [], ...(pooling ? { pooling } : {}) };
};

interface EncoderShape {
  readonly vocabulary: number;
  readonly hidden: number;
  readonly layers: number;
  readonly inner: number;
  readonly positions: number;
  readonly types: number;
}

function* encoderTensors({ vocabulary, hidden, layers, inner, positions, types }: EncoderShape): Iterable<GgufTensor> {
  const table = (part: string, name: string, rows: number): GgufTensor => ({
    ...{ name: `${part}.weight`, shape: [rows, hidden], names: [`embeddings.${name}.weight`] },
  });
  const both = function* (part: string, own: string, ...shape: readonly number[]): Iterable<GgufTensor> {
    yield { name: `${part}.weight`, shape, names: [`${own}.weight`] };
    yield { name: `${part}.bias`, shape: shape.slice(0, 1), names: [`${own}.bias`] };
  };
  yield table('token_embd', 'word_embeddings', vocabulary);
  yield table('position_embd', 'position_embeddings', positions);
  yield table('token_types', 'token_type_embeddings', types);
  yield* both('token_embd_norm', 'embeddings.LayerNorm', hidden);
  const sizes: Readonly<Partial<Record<string, readonly number[]>>> = {
    ...{ attn_output_norm: [hidden], layer_output_norm: [hidden] },
    ...{ ffn_up: [inner, hidden], ffn_down: [hidden, inner] },
  };
  for (let layer = 0; layer < layers; layer++) {
    for (const [part, own] of Object.entries(PARTS)) {
      yield* both(`blk.${layer}.${part}`, `encoder.layer.${layer}.${own}`, ...(sizes[part] ?? [hidden, hidden]));
    }
  }
}
