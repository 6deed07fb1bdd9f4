import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { dequantise, isGgmlType } from '../checkpoint/ggml-types.ts';
import type { DecoderNames, MatrixName, NormName, ProductName } from '../model/architecture.ts';
import type { DecoderConfig, DecoderLayerConfig } from '../model/decoder-config.ts';

export interface Product {
  readonly rows: number;
  readonly columns: number;
  /** [rows, columns] */
  readonly weight: Float64Array;
  /** [rows] */
  readonly bias?: Float64Array;
}

export interface Norm {
  readonly weight: Float64Array;
  readonly bias?: Float64Array;
}

export interface ReferenceLayer {
  readonly config: DecoderLayerConfig;
  readonly query: Product;
  readonly key: Product;
  readonly value: Product;
  readonly attentionOutput: Product;
  readonly queryNorm?: Norm;
  readonly keyNorm?: Norm;
  readonly attentionNorm?: Norm;
  readonly feedForwardNorm?: Norm;
  readonly attentionOutputNorm?: Norm;
  readonly feedForwardOutputNorm?: Norm;
  readonly feedForward:
    | { readonly kind: 'gated' | 'plain'; readonly gate?: Product; readonly up: Product; readonly down: Product }
    | {
        readonly kind: 'experts';
        readonly router: Product;
        readonly experts: readonly { readonly gate: Product; readonly up: Product; readonly down: Product }[];
      };
}

/** A whole decoder in float64. */
export interface ReferenceWeights {
  readonly embedding: Float64Array;
  readonly positions?: Float64Array;
  readonly layers: readonly ReferenceLayer[];
  readonly finalNorm: Norm;
  readonly head: Float64Array;
}

/** Reads all of a small decoder. Rejects where a tensor is missing or has another size than the config says. */
export async function readReferenceWeights(
  checkpoint: Checkpoint,
  names: DecoderNames,
  config: DecoderConfig,
): Promise<ReferenceWeights> {
  const tensor = async (name: string): Promise<Float64Array> => {
    const found = checkpoint.tensors.get(name);
    if (!found) throw new Error(`${checkpoint.name}: no tensor ${name}`);
    if (!isGgmlType(found.dtype)) throw new Error(`${checkpoint.name}: ${name} has type ${found.dtype}`);
    return Float64Array.from(dequantise(found.dtype, await checkpoint.read(found)));
  };
  const matrix = async (name: MatrixName, rows: number, columns: number): Promise<Float64Array> => {
    const all = await tensor(name.tensor);
    const { first, of } = name.stretch ?? { first: 0, of: rows };
    const transposed = (name.transposed ?? false) !== (checkpoint.tensors.get(name.tensor)?.transposed ?? false);
    if (all.length !== of * columns) throw new Error(`${name.tensor} has ${all.length} values, not ${of} × ${columns}`);
    return Float64Array.from({ length: rows * columns }, (_, i) => {
      const [row, column] = [first + Math.floor(i / columns), i % columns];
      return all[transposed ? column * of + row : row * columns + column]!;
    });
  };
  const product = async ({ weight, bias }: ProductName, rows: number, columns: number): Promise<Product> => ({
    ...{ rows, columns, weight: await matrix(weight, rows, columns) },
    ...(bias ? { bias: await matrix(bias, rows, 1) } : {}),
  });
  const plain = (name: MatrixName, rows: number, columns: number) => product({ weight: name }, rows, columns);
  const norm = async (name: NormName): Promise<Norm> => ({
    weight: await tensor(name.weight),
    ...(name.bias ? { bias: await tensor(name.bias) } : {}),
  });

  const { hiddenSize, vocabSize, learnedPositions } = config;
  const feedForward = async (index: number): Promise<ReferenceLayer['feedForward']> => {
    const { feedForward: own } = config.layers[index]!;
    const { feedForward: named } = names.layer(index);
    const { size } = own;
    if (named.kind === 'experts') {
      const experts = named.experts.map(async ({ gate, up, down }) => ({
        gate: await plain(gate, size, hiddenSize),
        up: await plain(up, size, hiddenSize),
        down: await plain(down, hiddenSize, size),
      }));
      return {
        kind: named.kind,
        router: await plain(named.router, experts.length, hiddenSize),
        experts: await Promise.all(experts),
      };
    }
    return {
      kind: named.kind,
      ...(named.kind === 'gated' ? { gate: await product(named.gate, size, hiddenSize) } : {}),
      up: await product(named.up, size, hiddenSize),
      down: await product(named.down, hiddenSize, size),
    };
  };
  const layer = async (config: DecoderLayerConfig, index: number): Promise<ReferenceLayer> => {
    const { heads, kvHeads, headSize } = config.attention;
    const named = names.layer(index);
    return {
      config,
      query: await product(named.query, heads * headSize, hiddenSize),
      key: await product(named.key, kvHeads * headSize, hiddenSize),
      value: await product(named.value, kvHeads * headSize, hiddenSize),
      attentionOutput: await product(named.attentionOutput, hiddenSize, heads * headSize),
      ...(named.queryNorm ? { queryNorm: await norm(named.queryNorm) } : {}),
      ...(named.keyNorm ? { keyNorm: await norm(named.keyNorm) } : {}),
      ...(named.attentionNorm ? { attentionNorm: await norm(named.attentionNorm) } : {}),
      ...(named.feedForwardNorm ? { feedForwardNorm: await norm(named.feedForwardNorm) } : {}),
      ...(named.attentionOutputNorm ? { attentionOutputNorm: await norm(named.attentionOutputNorm) } : {}),
      ...(named.feedForwardOutputNorm ? { feedForwardOutputNorm: await norm(named.feedForwardOutputNorm) } : {}),
      feedForward: await feedForward(index),
    };
  };
  const embedding = await matrix(names.embedding, vocabSize, hiddenSize);
  return {
    embedding,
    ...(names.positions ? { positions: await matrix(names.positions, learnedPositions!, hiddenSize) } : {}),
    layers: await Promise.all(config.layers.map(layer)),
    finalNorm: await norm(names.finalNorm),
    head: config.tiedHead ? embedding : await matrix(names.head, vocabSize, hiddenSize),
  };
}
