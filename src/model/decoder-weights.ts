import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { Gpu } from '../gpu/gpu.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { rowWords } from '../gpu/row-words.ts';
import { type AnySource, WeightMatrix } from '../gpu/weight-matrix.ts';
import {
  DecoderTensors,
  EMBEDDING_NAME,
  FINAL_NORM_NAME,
  HEAD_NAME,
  layerNames,
  layerSources,
} from './decoder-tensors.ts';
import type { LlamaConfig } from './llama-config.ts';

/** One layer on the GPU. Norms are f32, padded to whole words. qkv and gateUp are paired where formats let them. */
export interface DecoderLayerWeights {
  readonly attentionNorm: GPUBuffer;
  /** [(heads + 2 kvHeads) headSize, hiddenSize]: q, k, v. */
  readonly qkv: WeightMatrix;
  readonly attentionOutput: WeightMatrix;
  readonly feedForwardNorm: GPUBuffer;
  /** [2 intermediateSize, hiddenSize]: gate, up. */
  readonly gateUp: WeightMatrix;
  readonly down: WeightMatrix;
}

/** A range of layers on the GPU, with the embedding if it begins at layer 0, and norm and head if it ends at the last. */
export interface DecoderWeights {
  readonly from: number;
  readonly to: number;
  readonly embedding: WeightMatrix | undefined;
  readonly layers: readonly DecoderLayerWeights[];
  readonly finalNorm: GPUBuffer | undefined;
  readonly head: WeightMatrix | undefined;
  /** On the GPU, padding included. */
  readonly bytes: number;
}

/** Loads layers [from, to) and no other tensor, floats quantised as `quantisation` says. Throws CheckpointError or AllocationError. */
export async function loadDecoderWeights(
  gpu: Gpu,
  checkpoint: Checkpoint,
  config: LlamaConfig,
  range: { readonly from: number; readonly to: number },
  onRead?: (bytes: number) => void,
  quantisation?: Quantisation,
): Promise<DecoderWeights> {
  const { from, to } = range;
  const { hiddenSize, vocabSize } = config;
  if (!(from >= 0 && from < to && to <= config.layers)) {
    throw new RangeError(`layers ${from} to ${to} of a model of ${config.layers}`);
  }
  const tensors = new DecoderTensors(checkpoint, onRead, quantisation);
  const before = gpu.buffers.liveBytes;
  // Every tensor is looked up before the first one is read, so that a bad file fails at once.
  const sources = Array.from({ length: to - from }, (_, i) => layerSources(tensors, config, from + i));
  const isFirst = from === 0;
  const isLast = to === config.layers;
  const embeddingSource =
    isFirst || (isLast && config.tiedHead) ? tensors.matrix(EMBEDDING_NAME, vocabSize, hiddenSize) : undefined;
  const headSource = isLast && !config.tiedHead ? tensors.matrix(HEAD_NAME, vocabSize, hiddenSize) : undefined;
  if (isLast) tensors.findVector(FINAL_NORM_NAME, hiddenSize);
  for (let layer = from; layer < to; layer++) {
    tensors.findVector(layerNames(layer).attentionNorm, hiddenSize);
    tensors.findVector(layerNames(layer).feedForwardNorm, hiddenSize);
  }

  const norm = async (name: string): Promise<GPUBuffer> => {
    const buffer = await gpu.storage(name, rowWords(hiddenSize) * 16);
    gpu.device.queue.writeBuffer(buffer, 0, await tensors.vector(name, hiddenSize));
    return buffer;
  };
  const embedding = embeddingSource && (await WeightMatrix.load(gpu, hiddenSize, [embeddingSource]));
  const layers: DecoderLayerWeights[] = [];
  for (const [i, source] of sources.entries()) {
    const names = layerNames(from + i);
    layers.push({
      attentionNorm: await norm(names.attentionNorm),
      qkv: await pairedIfPossible(gpu, hiddenSize, source.qkv, config.headSize / 2),
      attentionOutput: await WeightMatrix.load(gpu, config.heads * config.headSize, source.attentionOutput),
      feedForwardNorm: await norm(names.feedForwardNorm),
      gateUp: await pairedIfPossible(gpu, hiddenSize, source.gateUp, config.intermediateSize),
      down: await WeightMatrix.load(gpu, config.intermediateSize, source.down),
    });
  }
  const finalNorm = isLast ? await norm(FINAL_NORM_NAME) : undefined;
  const head = headSource ? await WeightMatrix.load(gpu, hiddenSize, [headSource]) : isLast ? embedding : undefined;
  return {
    from,
    to,
    embedding: isFirst ? embedding : undefined,
    layers,
    finalNorm,
    head,
    bytes: gpu.buffers.liveBytes - before,
  };
}

/** Rows r and r + half of each 2 · half rows side by side; one below the other where formats change between them. */
async function pairedIfPossible(
  gpu: Gpu,
  columns: number,
  sources: readonly AnySource[],
  half: number,
): Promise<WeightMatrix> {
  return (
    (await WeightMatrix.loadPaired(gpu, columns, sources, half)) ?? (await WeightMatrix.load(gpu, columns, sources))
  );
}
