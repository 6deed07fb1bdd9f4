import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { DenseModule } from '../checkpoint/dense-module.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import type { AnySource } from '../gpu/weight-matrix.ts';
import { DecoderTensors } from './decoder-tensors.ts';
import type { EncoderConfig } from './encoder-config.ts';
import type { EncoderNames } from './encoder-names.ts';
import { refuseUnused } from './refuse-unused.ts';

/** Reads an encoder's tensors. All throw CheckpointError naming file, tensor and reason. */
export interface EncoderTensorReader {
  /** Of all that were asked for. */
  readonly bytes: number;
  /** A matrix [rows, columns] to load, quantised where that is asked for. */
  matrix(name: string, rows: number, columns: number): AnySource;
  /** Throws unless `table` can read it. */
  findTable(name: string, rows: number, columns: number): void;
  /** A matrix [rows, columns] as f32. */
  table(name: string, rows: number, columns: number): Promise<Float32Array<ArrayBuffer>>;
  /** Throws unless `vector` can read it. */
  findVector(name: string, length: number): void;
  vector(name: string, length: number): Promise<Float32Array<ArrayBuffer>>;
}

export function encoderTensors(
  checkpoint: Checkpoint,
  onRead?: (bytes: number) => void,
  quantisation?: Quantisation,
): EncoderTensorReader {
  const tensors = new DecoderTensors(checkpoint, onRead, quantisation);
  const plain = quantisation === undefined ? tensors : new DecoderTensors(checkpoint, onRead);
  return {
    get bytes() {
      return tensors.bytes + (plain === tensors ? 0 : plain.bytes);
    },
    matrix: (tensor, rows, columns) => tensors.matrix({ tensor }, rows, columns),
    findTable: (tensor, rows, columns) => {
      plain.matrix({ tensor }, rows, columns);
    },
    table: (tensor, rows, columns) => plain.floats(columns, [plain.matrix({ tensor }, rows, columns)]),
    findVector: (tensor, length) => tensors.findVector({ tensor }, length),
    vector: (tensor, length) => tensors.vector({ tensor }, length),
  };
}

/** A product after pooling, and the checkpoint that has it. */
export interface StoredDense {
  readonly checkpoint: Checkpoint;
  readonly module: DenseModule;
}

const DENSE = { weight: 'linear.weight', bias: 'linear.bias' } as const;

/** Its matrix and its bias, floats as they are stored. Throws CheckpointError, also for tensors that the module has no use for. */
export function denseTensors({ checkpoint, module: { inputs, outputs, bias } }: StoredDense) {
  const tensors = new DecoderTensors(checkpoint);
  if (bias) tensors.findVector({ tensor: DENSE.bias }, outputs);
  const used: readonly string[] = bias ? Object.values(DENSE) : [DENSE.weight];
  refuseUnused(
    checkpoint.name,
    'Dense',
    [...checkpoint.tensors.keys()].filter((name) => !used.includes(name)),
  );
  return {
    matrix: tensors.matrix({ tensor: DENSE.weight }, outputs, inputs),
    bias: async () => (bias ? tensors.vector({ tensor: DENSE.bias }, outputs) : new Float32Array(outputs)),
  };
}

/** The sources of one layer's products; q, k and v are one. */
export function encoderSources(
  tensors: EncoderTensorReader,
  { hiddenSize, intermediateSize }: EncoderConfig,
  names: ReturnType<EncoderNames['layer']>,
) {
  return {
    qkv: [names.query, names.key, names.value].map(({ weight }) => tensors.matrix(weight, hiddenSize, hiddenSize)),
    attentionOutput: [tensors.matrix(names.attentionOutput.weight, hiddenSize, hiddenSize)],
    up: [tensors.matrix(names.up.weight, intermediateSize, hiddenSize)],
    down: [tensors.matrix(names.down.weight, hiddenSize, intermediateSize)],
  } as const;
}
