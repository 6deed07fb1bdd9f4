import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { Gpu } from '../gpu/gpu.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { rowWords } from '../gpu/row-words.ts';
import { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { EncoderConfig } from './encoder-config.ts';
import type { DenseName, EncoderNames, LayerNormName } from './encoder-names.ts';
import {
  denseTensors,
  type EncoderTensorReader,
  encoderSources,
  encoderTensors,
  type StoredDense,
} from './encoder-tensors.ts';

/** Weights and bias of a LayerNorm, f32, padded to whole words. */
export interface LayerNormWeights {
  readonly weight: GPUBuffer;
  readonly bias: GPUBuffer;
}

/** A product with its bias, f32, padded to whole words. */
export interface DenseWeights {
  readonly matrix: WeightMatrix;
  readonly bias: GPUBuffer;
}

/** One layer on the GPU. */
export interface EncoderLayerWeights {
  /** [3 hiddenSize, hiddenSize]: q, k, v. */
  readonly qkv: DenseWeights;
  readonly attentionOutput: DenseWeights;
  readonly attentionNorm: LayerNormWeights;
  readonly up: DenseWeights;
  readonly down: DenseWeights;
  readonly outputNorm: LayerNormWeights;
}

/** A product of vectors that were pooled. */
export interface HeadProduct extends DenseWeights {
  readonly tanh: boolean;
}

/** A whole encoder on the GPU. */
export interface EncoderWeights {
  readonly words: WeightMatrix;
  /** [rows, hiddenSize padded to 4] f32. */
  readonly positions: GPUBuffer;
  readonly types: GPUBuffer;
  readonly embeddingNorm: LayerNormWeights;
  readonly layers: readonly EncoderLayerWeights[];
  /** Products that a pooled vector goes through, in this order: Dense modules, or a classifier's two. */
  readonly head: readonly HeadProduct[];
  /** On the GPU, padding included. */
  readonly bytes: number;
}

/**
 * Loads what `names` has, and products of `modules` behind it, matrices of floats of the former quantised as `quantisation` says;
 * `onRead` is told the bytes of the former that have come, and how many there will be. Throws CheckpointError or AllocationError.
 */
export async function loadEncoderWeights(
  gpu: Gpu,
  checkpoint: Checkpoint,
  config: EncoderConfig,
  names: EncoderNames,
  onRead: (loaded: number, total: number) => void = () => {},
  quantisation?: Quantisation,
  modules: readonly StoredDense[] = [],
): Promise<EncoderWeights> {
  const { hiddenSize, intermediateSize, vocabSize } = config;
  let loaded = 0;
  const tensors: EncoderTensorReader = encoderTensors(
    checkpoint,
    (bytes) => {
      loaded += bytes;
      onRead(loaded, tensors.bytes);
    },
    quantisation,
  );
  const before = gpu.buffers.liveBytes;
  // Every tensor is looked up before the first one is read, so that a bad file fails at once.
  const layerNames = Array.from({ length: config.layers }, (_, i) => names.layer(i));
  const sources = layerNames.map((layer) => encoderSources(tensors, config, layer));
  const wordSource = tensors.matrix(names.words, vocabSize, hiddenSize);
  for (const { name, length } of vectors(config, names)) tensors.findVector(name, length);
  tensors.findTable(names.positions, config.positions, hiddenSize);
  tensors.findTable(names.types, config.tokenTypes, hiddenSize);
  const classes = config.classifier?.labels.length ?? 0;
  const headSources = names.classifier && {
    dense: tensors.matrix(names.classifier.dense.weight, hiddenSize, hiddenSize),
    output: tensors.matrix(names.classifier.output.weight, classes, hiddenSize),
  };

  const vector = (label: string, ...parts: readonly string[]) => loadVector(gpu, tensors, label, parts, hiddenSize);
  const norm = async ({ weight, bias }: LayerNormName): Promise<LayerNormWeights> => ({
    weight: await vector(weight, weight),
    bias: await vector(bias, bias),
  });
  const dense = async (
    source: Parameters<typeof WeightMatrix.load>[2],
    columns: number,
    length: number,
    ...biases: readonly string[]
  ): Promise<DenseWeights> => ({
    matrix: await WeightMatrix.load(gpu, columns, source),
    bias: await loadVector(gpu, tensors, biases.join(' | '), biases, length),
  });
  const words = await WeightMatrix.load(gpu, hiddenSize, [wordSource]);
  const positions = await loadTable(gpu, tensors, names.positions, config.positions, hiddenSize);
  const types = await loadTable(gpu, tensors, names.types, config.tokenTypes, hiddenSize);
  const embeddingNorm = await norm(names.embeddingNorm);
  const layers: EncoderLayerWeights[] = [];
  for (const [i, source] of sources.entries()) {
    const { query, key, value, attentionOutput, attentionNorm, up, down, outputNorm } = layerNames[i]!;
    layers.push({
      qkv: await dense(source.qkv, hiddenSize, hiddenSize, query.bias, key.bias, value.bias),
      attentionOutput: await dense(source.attentionOutput, hiddenSize, hiddenSize, attentionOutput.bias),
      attentionNorm: await norm(attentionNorm),
      up: await dense(source.up, hiddenSize, intermediateSize, up.bias),
      down: await dense(source.down, intermediateSize, hiddenSize, down.bias),
      outputNorm: await norm(outputNorm),
    });
  }
  const head: HeadProduct[] = [];
  if (headSources) {
    const { dense: first, output } = names.classifier!;
    head.push({ ...(await dense([headSources.dense], hiddenSize, hiddenSize, first.bias)), tanh: true });
    head.push({ ...(await dense([headSources.output], hiddenSize, classes, output.bias)), tanh: false });
  }
  for (const stored of modules) head.push(await loadDense(gpu, stored));
  const bytes = gpu.buffers.liveBytes - before;
  return { words, positions, types, embeddingNorm, layers, head, bytes };
}

async function loadDense(gpu: Gpu, stored: StoredDense): Promise<HeadProduct> {
  const { file, inputs, activation } = stored.module;
  const source = denseTensors(stored);
  const values = await source.bias();
  const bias = await gpu.storage(file, 16 * rowWords(values.length));
  gpu.device.queue.writeBuffer(bias, 0, values);
  return { matrix: await WeightMatrix.load(gpu, inputs, [source.matrix]), bias, tanh: activation === 'tanh' };
}

/** All vectors that are read, with their lengths. */
function* vectors(config: EncoderConfig, names: EncoderNames): Generator<{ name: string; length: number }> {
  const { hiddenSize, intermediateSize } = config;
  function* norm({ weight, bias }: LayerNormName) {
    yield { name: weight, length: hiddenSize };
    yield { name: bias, length: hiddenSize };
  }
  const bias = (dense: DenseName, length = hiddenSize) => ({ name: dense.bias, length });
  yield* norm(names.embeddingNorm);
  for (let i = 0; i < config.layers; i++) {
    const layer = names.layer(i);
    for (const dense of [layer.query, layer.key, layer.value, layer.attentionOutput, layer.down]) yield bias(dense);
    yield bias(layer.up, intermediateSize);
    yield* norm(layer.attentionNorm);
    yield* norm(layer.outputNorm);
  }
  if (names.classifier) {
    yield bias(names.classifier.dense);
    yield bias(names.classifier.output, config.classifier!.labels.length);
  }
}

/** Vectors of `length` one after the other, padded to whole words. */
async function loadVector(
  gpu: Gpu,
  tensors: EncoderTensorReader,
  label: string,
  names: readonly string[],
  length: number,
): Promise<GPUBuffer> {
  const values = new Float32Array(4 * rowWords(names.length * length));
  for (const [i, name] of names.entries()) values.set(await tensors.vector(name, length), i * length);
  const buffer = await gpu.storage(label, values.byteLength);
  gpu.device.queue.writeBuffer(buffer, 0, values);
  return buffer;
}

/** A matrix as f32 rows, each padded to whole words. */
async function loadTable(
  gpu: Gpu,
  tensors: EncoderTensorReader,
  name: string,
  rows: number,
  columns: number,
): Promise<GPUBuffer> {
  const table = await tensors.table(name, rows, columns);
  const stride = 4 * rowWords(columns);
  const buffer = await gpu.storage(name, rows * stride * 4);
  const padded = stride === columns ? table : new Float32Array(rows * stride);
  if (padded !== table) {
    for (let row = 0; row < rows; row++) padded.set(table.subarray(row * columns, (row + 1) * columns), row * stride);
  }
  gpu.device.queue.writeBuffer(buffer, 0, padded);
  return buffer;
}
