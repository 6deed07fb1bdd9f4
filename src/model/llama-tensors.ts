import { type Checkpoint, CheckpointError, type TensorInfo } from '../checkpoint/checkpoint.ts';
import { WEIGHT_FORMATS, type WeightFormat } from '../gpu/weight-format.ts';
import type { MatrixSource } from '../gpu/weight-matrix.ts';
import type { LlamaConfig } from './llama-config.ts';

/** safetensors' names of the formats that are served. */
const FORMATS: Readonly<Record<string, WeightFormat>> = { F32: 'f32', F16: 'f16', BF16: 'bf16' };

/** Names of one layer's tensors, as Hugging Face's Llama has them. */
export function layerNames(layer: number) {
  const prefix = `model.layers.${layer}`;
  return {
    attentionNorm: `${prefix}.input_layernorm.weight`,
    query: `${prefix}.self_attn.q_proj.weight`,
    key: `${prefix}.self_attn.k_proj.weight`,
    value: `${prefix}.self_attn.v_proj.weight`,
    attentionOutput: `${prefix}.self_attn.o_proj.weight`,
    feedForwardNorm: `${prefix}.post_attention_layernorm.weight`,
    gate: `${prefix}.mlp.gate_proj.weight`,
    up: `${prefix}.mlp.up_proj.weight`,
    down: `${prefix}.mlp.down_proj.weight`,
  } as const;
}

export const EMBEDDING_NAME = 'model.embed_tokens.weight';
export const FINAL_NORM_NAME = 'model.norm.weight';
export const HEAD_NAME = 'lm_head.weight';

/** Reads a model's tensors by name, checking each one's presence, shape and dtype. */
export class LlamaTensors {
  readonly #checkpoint: Checkpoint;
  readonly #onRead: (bytes: number) => void;

  /** `onRead` is told of every stretch of bytes that has come. */
  constructor(checkpoint: Checkpoint, onRead: (bytes: number) => void = () => {}) {
    this.#checkpoint = checkpoint;
    this.#onRead = onRead;
  }

  /** Throws CheckpointError naming file, tensor and reason. */
  find(name: string, shape: readonly number[]): { readonly tensor: TensorInfo; readonly format: WeightFormat } {
    const fail = (reason: string): never => {
      throw new CheckpointError(`${this.#checkpoint.name}: tensor ${name} ${reason}`);
    };
    const tensor = this.#checkpoint.tensors.get(name) ?? fail('is missing');
    if (tensor.shape.join() !== shape.join()) {
      fail(`has shape [${tensor.shape.join(', ')}], the config asks for [${shape.join(', ')}]`);
    }
    const format = Object.hasOwn(FORMATS, tensor.dtype) ? FORMATS[tensor.dtype] : undefined;
    return { tensor, format: format ?? fail(`has dtype ${tensor.dtype}; F32, F16 and BF16 are served`) };
  }

  /** A matrix [rows, columns] to load. */
  matrix(name: string, rows: number, columns: number): MatrixSource {
    const { tensor, format } = this.find(name, [rows, columns]);
    return { label: name, rows, format, read: (from, length) => this.#read(tensor, from, length) };
  }

  /** A vector [length] as f32. */
  async vector(name: string, length: number): Promise<Float32Array<ArrayBuffer>> {
    const { tensor, format } = this.find(name, [length]);
    return WEIGHT_FORMATS[format].decode(await this.#read(tensor, 0, tensor.byteLength), length);
  }

  /** Whole matrices one below the other as f32, for the CPU. */
  async floats(columns: number, sources: readonly MatrixSource[]): Promise<Float32Array<ArrayBuffer>> {
    const rows = sources.reduce((sum, source) => sum + source.rows, 0);
    const values = new Float32Array(rows * columns);
    let at = 0;
    for (const source of sources) {
      const { bytes, decode } = WEIGHT_FORMATS[source.format];
      const count = source.rows * columns;
      values.set(decode(await source.read(0, count * bytes), count), at);
      at += count;
    }
    return values;
  }

  async #read(tensor: TensorInfo, from: number, length: number): Promise<Uint8Array> {
    const bytes = await this.#checkpoint.read(tensor, from, length);
    if (bytes.byteLength !== length) {
      throw new CheckpointError(
        `${this.#checkpoint.name}: tensor ${tensor.name} gave ${bytes.byteLength} bytes of ${length}`,
      );
    }
    this.#onRead(length);
    return bytes;
  }
}

/** The sources of one layer's products: those that share an input are fused into one. */
export function layerSources(tensors: LlamaTensors, config: LlamaConfig, layer: number) {
  const names = layerNames(layer);
  const { hiddenSize, intermediateSize } = config;
  const queryRows = config.heads * config.headSize;
  const kvRows = config.kvHeads * config.headSize;
  return {
    qkv: [
      tensors.matrix(names.query, queryRows, hiddenSize),
      tensors.matrix(names.key, kvRows, hiddenSize),
      tensors.matrix(names.value, kvRows, hiddenSize),
    ],
    attentionOutput: [tensors.matrix(names.attentionOutput, hiddenSize, queryRows)],
    gateUp: [
      tensors.matrix(names.gate, intermediateSize, hiddenSize),
      tensors.matrix(names.up, intermediateSize, hiddenSize),
    ],
    down: [tensors.matrix(names.down, hiddenSize, intermediateSize)],
  } as const;
}
