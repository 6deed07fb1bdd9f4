import type { Checkpoint, TensorInfo } from '../../checkpoint/checkpoint.ts';
import { type ModelConfig, parseModelConfig } from '../../checkpoint/model-config.ts';
import { Random } from '../../gpu/testing/random.ts';

export interface EncoderShape {
  /** Default: BertModel. */
  readonly architecture?: string;
  readonly layers?: number;
  readonly heads?: number;
  readonly headSize?: number;
  readonly intermediateSize?: number;
  readonly vocabSize?: number;
  readonly positions?: number;
  readonly tokenTypes?: number;
  readonly activation?: string;
  readonly padTokenId?: number;
  /** Of a classifier. */
  readonly labels?: number;
}

/** An encoder with random weights, in memory: one layer of two heads of 8 unless `shape` says otherwise. */
export function randomEncoder(
  seed: number,
  shape: EncoderShape = {},
): { readonly config: ModelConfig; readonly checkpoint: Checkpoint } {
  const { architecture = 'BertModel', layers = 1, heads = 2, headSize = 8, intermediateSize = 24 } = shape;
  const { vocabSize = 40, positions = 64, tokenTypes = 2, activation = 'gelu', padTokenId = 1, labels = 3 } = shape;
  const roberta = architecture.startsWith('XLMRoberta');
  const classifies = architecture.endsWith('Classification');
  const hiddenSize = heads * headSize;
  const random = new Random(seed);
  const tensors = new Map<string, { readonly info: TensorInfo; readonly bytes: Uint8Array }>();
  const add = (name: string, values: Float32Array<ArrayBuffer>, ...shapeOf: readonly number[]) => {
    const info = { name, dtype: 'F32', shape: shapeOf, offset: 0, byteLength: values.byteLength };
    tensors.set(name, { info, bytes: new Uint8Array(values.buffer) });
  };
  // Products that keep the size of what they take, so that attention is far from uniform.
  const dense = (name: string, rows: number, columns: number) => {
    add(`${name}.weight`, random.normals(rows * columns, 1.5 / Math.sqrt(columns)), rows, columns);
    add(`${name}.bias`, random.normals(rows, 0.3), rows);
  };
  const norm = (name: string) => {
    add(
      `${name}.weight`,
      random.normals(hiddenSize, 0.2).map((x) => 1 + x),
      hiddenSize,
    );
    add(`${name}.bias`, random.normals(hiddenSize, 0.2), hiddenSize);
  };
  const under = classifies ? (roberta ? 'roberta.' : 'bert.') : '';
  for (const [name, rows] of Object.entries({ word: vocabSize, position: positions, token_type: tokenTypes })) {
    add(`${under}embeddings.${name}_embeddings.weight`, random.normals(rows * hiddenSize), rows, hiddenSize);
  }
  norm(`${under}embeddings.LayerNorm`);
  for (let i = 0; i < layers; i++) {
    const layer = `${under}encoder.layer.${i}`;
    for (const part of ['query', 'key', 'value']) dense(`${layer}.attention.self.${part}`, hiddenSize, hiddenSize);
    dense(`${layer}.attention.output.dense`, hiddenSize, hiddenSize);
    norm(`${layer}.attention.output.LayerNorm`);
    dense(`${layer}.intermediate.dense`, intermediateSize, hiddenSize);
    dense(`${layer}.output.dense`, hiddenSize, intermediateSize);
    norm(`${layer}.output.LayerNorm`);
  }
  if (classifies) {
    dense(roberta ? 'classifier.dense' : 'bert.pooler.dense', hiddenSize, hiddenSize);
    dense(roberta ? 'classifier.out_proj' : 'classifier', labels, hiddenSize);
  }
  const config = {
    architectures: [architecture],
    model_type: roberta ? 'xlm-roberta' : 'bert',
    hidden_size: hiddenSize,
    intermediate_size: intermediateSize,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    vocab_size: vocabSize,
    max_position_embeddings: positions,
    type_vocab_size: tokenTypes,
    layer_norm_eps: 1e-5,
    hidden_act: activation,
    pad_token_id: padTokenId,
    ...(classifies ? { num_labels: labels } : {}),
  };
  const checkpoint: Checkpoint = {
    name: 'random encoder',
    tensors: new Map([...tensors].map(([name, { info }]) => [name, info])),
    async read(tensor, from = 0, length = tensor.byteLength - from) {
      return tensors.get(tensor.name)!.bytes.subarray(from, from + length);
    },
  };
  return { config: parseModelConfig(JSON.stringify(config), 'config.json'), checkpoint };
}
