import { type Checkpoint, CheckpointError, type TensorInfo } from '../checkpoint/checkpoint.ts';
import { quantShape, quantValues } from '../gpu/quant-format.ts';
import { type Quantisation, quantisedSource } from '../gpu/quantise.ts';
import { WEIGHT_FORMATS, type WeightFormat } from '../gpu/weight-format.ts';
import { type AnySource, isQuantSource, type MatrixSource, type QuantSource } from '../gpu/weight-matrix.ts';
import { GGML_QUANT_TYPES, type GgmlQuantType, ggmlQuantFormat, isGgmlQuantType, repackGgml } from './ggml-quants.ts';
import { ggmlPacker } from './ggml-tiles.ts';
import type { LlamaConfig } from './llama-config.ts';

/** What safetensors and GGUF call the float formats that are served. */
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
export class DecoderTensors {
  readonly #checkpoint: Checkpoint;
  readonly #onRead: (bytes: number) => void;
  readonly #quantisation: Quantisation | undefined;

  /**
   * `onRead` is told of every stretch of bytes that has come. With `quantisation` matrices of floats are quantised as
   * they are read, but those whose columns are no whole blocks.
   */
  constructor(checkpoint: Checkpoint, onRead: (bytes: number) => void = () => {}, quantisation?: Quantisation) {
    this.#checkpoint = checkpoint;
    this.#onRead = onRead;
    this.#quantisation = quantisation;
  }

  /** A matrix [rows, columns] to load. Throws CheckpointError naming file, tensor and reason. */
  matrix(name: string, rows: number, columns: number): AnySource {
    const tensor = this.#find(name, [rows, columns]);
    if (isGgmlQuantType(tensor.dtype)) return this.#quants(tensor, tensor.dtype, rows);
    const format = this.#floatFormat(tensor, GGML_QUANT_TYPES);
    const source: MatrixSource = {
      label: name,
      rows,
      format,
      read: (from, length) => this.#read(tensor, from, length),
    };
    return this.#quantisation ? quantisedSource(source, columns, this.#quantisation) : source;
  }

  /** Throws CheckpointError unless there is a vector [length] that `vector` can read. */
  findVector(name: string, length: number): void {
    this.#floatFormat(this.#find(name, [length]));
  }

  /** A vector [length] as f32. */
  async vector(name: string, length: number): Promise<Float32Array<ArrayBuffer>> {
    const tensor = this.#find(name, [length]);
    const format = this.#floatFormat(tensor);
    return WEIGHT_FORMATS[format].decode(await this.#read(tensor, 0, tensor.byteLength), length);
  }

  /** Whole matrices one below the other as f32, for the CPU. */
  async floats(columns: number, sources: readonly AnySource[]): Promise<Float32Array<ArrayBuffer>> {
    const rows = sources.reduce((sum, source) => sum + source.rows, 0);
    const values = new Float32Array(rows * columns);
    let at = 0;
    for (const source of sources) {
      values.set(await sourceValues(source, columns), at);
      at += source.rows * columns;
    }
    return values;
  }

  #find(name: string, shape: readonly number[]): TensorInfo {
    const tensor = this.#checkpoint.tensors.get(name) ?? this.#fail(name, 'is missing');
    if (tensor.shape.join() !== shape.join()) {
      this.#fail(name, `has shape [${tensor.shape.join(', ')}], the config asks for [${shape.join(', ')}]`);
    }
    return tensor;
  }

  /** `others`: what is served in its place beside floats. */
  #floatFormat({ name, dtype }: TensorInfo, others: readonly string[] = []): WeightFormat {
    if (Object.hasOwn(FORMATS, dtype)) return FORMATS[dtype]!;
    const served = [...Object.keys(FORMATS), ...others];
    return this.#fail(name, `has dtype ${dtype}; ${served.slice(0, -1).join(', ')} and ${served.at(-1)} are served`);
  }

  #fail(name: string, reason: string): never {
    throw new CheckpointError(`${this.#checkpoint.name}: tensor ${name} ${reason}`);
  }

  #quants(tensor: TensorInfo, type: GgmlQuantType, rows: number): QuantSource {
    const rowBytes = tensor.byteLength / rows;
    const read = (from: number, count: number) => this.#read(tensor, from * rowBytes, count * rowBytes);
    const pack = ggmlPacker(type);
    return {
      label: tensor.name,
      rows,
      format: ggmlQuantFormat(type),
      readRows: async (from, count) => repackGgml(type, await read(from, count)),
      packRows:
        pack &&
        (async (weights, scales, places, columns, from) =>
          pack(weights, scales, places, columns, await read(from, places.length))),
    };
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

/** A whole matrix as f32. */
async function sourceValues(source: AnySource, columns: number): Promise<Float32Array<ArrayBuffer>> {
  if (isQuantSource(source)) {
    return quantValues(await source.readRows(0, source.rows), quantShape(source.format).block);
  }
  const { bytes, decode } = WEIGHT_FORMATS[source.format];
  const count = source.rows * columns;
  return decode(await source.read(0, count * bytes), count);
}

/** The sources of one layer's products: those that share an input are fused into one. */
export function layerSources(tensors: DecoderTensors, config: LlamaConfig, layer: number) {
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
