import type { Checkpoint } from '../checkpoint.ts';
import { type Written, type WrittenTensor, writeGguf } from './write-gguf.ts';

const OUTER: Readonly<Record<string, string>> = {
  'embeddings.word_embeddings': 'token_embd',
  'embeddings.position_embeddings': 'position_embd',
  'embeddings.token_type_embeddings': 'token_types',
  'embeddings.LayerNorm': 'token_embd_norm',
};
const PARTS: Readonly<Record<string, string>> = {
  'attention.self.query': 'attn_q',
  'attention.self.key': 'attn_k',
  'attention.self.value': 'attn_v',
  'attention.output.dense': 'attn_output',
  'attention.output.LayerNorm': 'attn_output_norm',
  'intermediate.dense': 'ffn_up',
  'output.dense': 'ffn_down',
  'output.LayerNorm': 'layer_output_norm',
};

export interface GgufEncoderParts {
  /** WordPiece's, in Hugging Face's writing; others fill the vocabulary up. */
  readonly tokens?: readonly string[];
  /** In place of what is written of the architecture, or beside it. */
  readonly metadata?: Readonly<Record<string, Written>>;
  readonly more?: readonly (readonly [string, Written])[];
}

/** Writes a small float32 BERT of Hugging Face's as a GGUF file, as llama.cpp's converter does, pooled by the mean. */
export async function writeGgufEncoder(
  checkpoint: Checkpoint,
  raw: Readonly<Record<string, unknown>>,
  { tokens = [], metadata = {}, more = [] }: GgufEncoderParts,
): Promise<Uint8Array> {
  const tensors: [string, WrittenTensor][] = [];
  for (const tensor of checkpoint.tensors.values()) {
    const [, outer, end] = /^(.*)\.(weight|bias)$/.exec(tensor.name) ?? [];
    if (outer === undefined || outer.startsWith('pooler.')) continue;
    const [, layer, part] = /^encoder\.layer\.(\d+)\.(.*)$/.exec(outer) ?? [];
    const name = layer === undefined ? OUTER[outer] : `blk.${layer}.${PARTS[part!]}`;
    const bytes = (await checkpoint.read(tensor)).slice();
    tensors.push([`${name}.${end}`, { type: 'F32', sizes: tensor.shape.toReversed(), bytes }]);
  }
  const own: Readonly<Record<string, Written>> = {
    block_count: raw.num_hidden_layers as number,
    context_length: raw.max_position_embeddings as number,
    embedding_length: raw.hidden_size as number,
    feed_forward_length: raw.intermediate_size as number,
    'attention.head_count': raw.num_attention_heads as number,
    'attention.layer_norm_epsilon': raw.layer_norm_eps as number,
    'attention.causal': false,
    pooling_type: 1,
    ...metadata,
  };
  const count = raw.vocab_size as number;
  const all = Array.from({ length: count }, (_, id) => tokens[id] ?? `unused${id}`);
  const types = Int32Array.from(all, (token) => (/^\[.*\]$/.test(token) ? 3 : 1));
  return writeGguf({
    metadata: [
      ['general.architecture', 'bert'],
      ...Object.entries(own).map(([key, value]) => [`bert.${key}`, value] as const),
      ['tokenizer.ggml.model', 'bert'],
      ['tokenizer.ggml.tokens', all.map((token, id) => marked(token, types[id] === 3))],
      ['tokenizer.ggml.token_type', types],
      ...more,
    ],
    tensors,
  });
}

/** Pieces that go on lose their ##, and those that begin a word are marked. */
function marked(token: string, isControl: boolean): string {
  if (isControl) return token;
  return token.startsWith('##') ? token.slice(2) : `▁${token}`;
}
