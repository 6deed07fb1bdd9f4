import { type Checkpoint, CheckpointError, type TensorInfo } from '../checkpoint/checkpoint.ts';
import { quantShape, quantValues } from '../gpu/quant-format.ts';
import { type Quantisation, quantisedSource } from '../gpu/quantise.ts';
import { WEIGHT_FORMATS, type WeightFormat } from '../gpu/weight-format.ts';
import { type AnySource, isQuantSource, type MatrixSource, type QuantSource } from '../gpu/weight-matrix.ts';
import type { MatrixName } from './architecture.ts';
import { GGML_QUANT_TYPES, type GgmlQuantType, ggmlQuantFormat, isGgmlQuantType, repackGgml } from './ggml-quants.ts';
import { ggmlPacker } from './ggml-tiles.ts';
import { transposedSource } from './transposed-source.ts';

/** What safetensors and GGUF call the float formats that are served. */
const FORMATS: Readonly<Record<string, WeightFormat>> = { F32: 'f32', F16: 'f16', BF16: 'bf16' };

/** A vector of a checkpoint, or a stretch of one where files have several in one. */
export type VectorName = Omit<MatrixName, 'transposed'>;

/** Reads a model's tensors by name, checking each one's presence, shape and dtype. */
export class DecoderTensors {
  readonly #checkpoint: Checkpoint;
  readonly #onRead: (bytes: number) => void;
  readonly #quantisation: Quantisation | undefined;
  readonly #found = new Set<TensorInfo>();

  /**
   * `onRead` is told of every stretch of bytes that has come. With `quantisation` matrices of floats are quantised as
   * they are read, but those whose columns are no whole blocks.
   */
  constructor(checkpoint: Checkpoint, onRead: (bytes: number) => void = () => {}, quantisation?: Quantisation) {
    this.#checkpoint = checkpoint;
    this.#onRead = onRead;
    this.#quantisation = quantisation;
  }

  /** Bytes of all tensors that were asked for, as long as whole ones were. */
  get bytes(): number {
    return [...this.#found].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** A matrix [rows, columns] to load, floats unquantised with `keep`. Throws CheckpointError naming file, tensor and reason. */
  matrix(
    { tensor: name, stretch, transposed: named = false }: MatrixName,
    rows: number,
    columns: number,
    keep?: 'as it is',
  ): AnySource {
    const { first, of } = stretch ?? { first: 0, of: rows };
    const transposed = named !== (this.#checkpoint.tensors.get(name)?.transposed ?? false);
    const tensor = this.#find(name, transposed ? [columns, of] : [of, columns]);
    const label = stretch ? `${name} ${first}` : name;
    if (isGgmlQuantType(tensor.dtype) && !transposed) return this.#quants(tensor, tensor.dtype, label, first, rows, of);
    const format = this.#floatFormat(tensor, transposed ? [] : GGML_QUANT_TYPES);
    const rowBytes = columns * WEIGHT_FORMATS[format].bytes;
    const source: MatrixSource = transposed
      ? transposedSource({
          ...{ label, rows, columns, first, of, format },
          // Every stretch reads the whole tensor, and is told its share.
          read: (from, length) => this.#read(tensor, from, length, (length * rows) / of),
        })
      : { label, rows, format, read: (from, length) => this.#read(tensor, first * rowBytes + from, length) };
    return this.#quantisation && !keep ? quantisedSource(source, columns, this.#quantisation) : source;
  }

  /** Throws CheckpointError unless there is a vector [length] that `vector` can read. */
  findVector(name: VectorName, length: number): void {
    this.#floatFormat(this.#find(name.tensor, [name.stretch?.of ?? length]));
  }

  /** A vector [length] as f32. */
  async vector({ tensor: name, stretch }: VectorName, length: number): Promise<Float32Array<ArrayBuffer>> {
    const tensor = this.#find(name, [stretch?.of ?? length]);
    const { bytes, decode } = WEIGHT_FORMATS[this.#floatFormat(tensor)];
    return decode(await this.#read(tensor, (stretch?.first ?? 0) * bytes, length * bytes), length);
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
    this.#found.add(tensor);
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

  #quants(
    tensor: TensorInfo,
    type: GgmlQuantType,
    label: string,
    first: number,
    rows: number,
    of: number,
  ): QuantSource {
    const rowBytes = tensor.byteLength / of;
    const read = (from: number, count: number) => this.#read(tensor, (first + from) * rowBytes, count * rowBytes);
    const pack = ggmlPacker(type);
    return {
      label,
      rows,
      format: ggmlQuantFormat(type),
      readRows: async (from, count) => repackGgml(type, await read(from, count)),
      packRows:
        pack &&
        (async (weights, scales, places, columns, from) =>
          pack(weights, scales, places, columns, await read(from, places.length))),
    };
  }

  async #read(tensor: TensorInfo, from: number, length: number, told = length): Promise<Uint8Array> {
    const bytes = await this.#checkpoint.read(tensor, from, length);
    if (bytes.byteLength !== length) {
      throw new CheckpointError(
        `${this.#checkpoint.name}: tensor ${tensor.name} gave ${bytes.byteLength} bytes of ${length}`,
      );
    }
    this.#onRead(told);
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
