import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { Gpu } from '../gpu/gpu.ts';
import type { Quantisation } from '../gpu/quantise.ts';
import { rowWords } from '../gpu/row-words.ts';
import { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { DecoderNames, LayerNames, NormName } from './architecture.ts';
import type { DecoderConfig } from './decoder-config.ts';
import { DecoderTensors, type VectorName } from './decoder-tensors.ts';
import { type FeedForwardWeights, findFeedForward } from './feed-forward-weights.ts';
import { attentionSources, type ProductSources } from './layer-sources.ts';

/** A norm on the GPU, padded to whole words: weights with the config's offset added, and the bias of LayerNorm. */
export interface NormWeights {
  readonly gain: GPUBuffer;
  readonly bias?: GPUBuffer;
}

/** A product on the GPU. */
export interface ProductWeights {
  readonly matrix: WeightMatrix;
  /** [rows padded to 4] f32. */
  readonly bias?: GPUBuffer;
}

/** One layer on the GPU. Matrices are paired where the config wants them so and formats let them. */
export interface DecoderLayerWeights {
  readonly attentionNorm: NormWeights | undefined;
  /** [(heads + 2 kvHeads) headSize, hiddenSize]: q, k, v. */
  readonly qkv: WeightMatrix;
  /** Biases of q, k, v and gains of the norms of q and k, where there are any, as RopeBuffers has them. */
  readonly qkvMore: GPUBuffer | undefined;
  readonly attentionOutput: ProductWeights;
  readonly attentionOutputNorm: NormWeights | undefined;
  readonly feedForwardNorm: NormWeights | undefined;
  readonly feedForward: FeedForwardWeights;
  readonly feedForwardOutputNorm: NormWeights | undefined;
}

/** A range of layers on the GPU, with the embedding if it begins at layer 0, and norm and head if it ends at the last one (see DecoderRange). */
export interface DecoderWeights {
  readonly from: number;
  readonly to: number;
  readonly embedding: WeightMatrix | undefined;
  /** [learnedPositions, hiddenSize] */
  readonly positions: WeightMatrix | undefined;
  readonly layers: readonly DecoderLayerWeights[];
  readonly finalNorm: NormWeights | undefined;
  readonly head: WeightMatrix | undefined;
  /** On the GPU, padding included. */
  readonly bytes: number;
}

/** Which of a decoder's weights are loaded. */
export interface DecoderRange {
  /** Layers [from, to). */
  readonly from: number;
  readonly to: number;
  /** Hidden states are all that is wanted: after the final norm nothing follows. */
  readonly headless?: boolean | undefined;
}

/** A part of a model whose tensors were found, to be loaded in its turn. */
export type LoadPart<T> = () => Promise<T>;

/** What parts of a model are loaded with. */
export interface WeightsPlace {
  readonly gpu: Gpu;
  readonly tensors: DecoderTensors;
  readonly config: DecoderConfig;
}

/**
 * Loads what `range` says and no other tensor, floats quantised as `quantisation` says; `onRead` is told the bytes that have come and how
 * many there will be. Throws CheckpointError or AllocationError.
 */
export async function loadDecoderWeights(
  gpu: Gpu,
  checkpoint: Checkpoint,
  config: DecoderConfig,
  names: DecoderNames,
  range: DecoderRange,
  onRead: (loaded: number, total: number) => void = () => {},
  quantisation?: Quantisation,
): Promise<DecoderWeights> {
  const { from, to, headless = false } = range;
  if (!(from >= 0 && from < to && to <= config.layers.length)) {
    throw new RangeError(`layers ${from} to ${to} of a model of ${config.layers.length}`);
  }
  let loaded = 0;
  const tensors: DecoderTensors = new DecoderTensors(
    checkpoint,
    (bytes) => {
      loaded += bytes;
      onRead(loaded, tensors.bytes);
    },
    quantisation,
  );
  const before = gpu.buffers.liveBytes;
  const { hiddenSize, vocabSize, learnedPositions } = config;
  const isFirst = from === 0;
  const isLast = to === config.layers.length;
  const hasHead = isLast && !headless;
  const place = { gpu, tensors, config };
  // Every tensor is looked up before the first one is read, so that a bad file fails at once.
  const findMatrix = (
    wanted: boolean,
    name: DecoderNames['embedding'] | undefined,
    rows: number,
    keep?: 'as it is',
  ) => {
    const source = wanted && name ? tensors.matrix(name, rows, hiddenSize, keep) : undefined;
    return async () => source && WeightMatrix.load(gpu, hiddenSize, [source]);
  };
  const loadEmbedding = findMatrix(isFirst || (hasHead && config.tiedHead), names.embedding, vocabSize);
  if (learnedPositions !== undefined && !names.positions) throw new Error('positions have no name');
  const hasPositions = isFirst && learnedPositions !== undefined;
  // Small, and a few of its columns are far larger than the rest of their blocks.
  const loadPositions = findMatrix(hasPositions, names.positions, learnedPositions ?? 0, 'as it is');
  const loadLayers = Array.from({ length: to - from }, (_, i) => findLayer(place, from + i, names.layer(from + i)));
  const loadNorm = isLast ? findNorm(place, names.finalNorm) : undefined;
  const loadHead = findMatrix(hasHead && !config.tiedHead, names.head, vocabSize);

  const embedding = await loadEmbedding();
  const positions = await loadPositions();
  const layers: DecoderLayerWeights[] = [];
  for (const load of loadLayers) layers.push(await load());
  const finalNorm = await loadNorm?.();
  const head = (await loadHead()) ?? (hasHead ? embedding : undefined);
  return {
    ...{ from, to, positions, layers, finalNorm, head },
    embedding: isFirst ? embedding : undefined,
    bytes: gpu.buffers.liveBytes - before,
  };
}

function findLayer(place: WeightsPlace, index: number, names: LayerNames): LoadPart<DecoderLayerWeights> {
  const { gpu, tensors, config } = place;
  const { hiddenSize } = config;
  const { norms, feedForward } = config.layers[index]!;
  const { qkv, output } = attentionSources(tensors, config, index, names);
  const norm = (has: boolean, name: NormName | undefined) => {
    if (has && !name) throw new Error(`a norm of layer ${index} has no name`);
    return has ? findNorm(place, name!) : async () => undefined;
  };
  const loadAttentionNorm = norm(norms !== 'after', names.attentionNorm);
  const loadMore = findQkvMore(place, index, names);
  const loadOutputBias = findBias(place, names.attentionOutput.bias, hiddenSize);
  const loadOutputNorm = norm(norms !== 'before', names.attentionOutputNorm);
  const loadFeedForwardNorm = norm(norms !== 'after', names.feedForwardNorm);
  const loadFeedForward = findFeedForward(place, feedForward, names.feedForward);
  const loadFeedForwardOutputNorm = norm(norms !== 'before', names.feedForwardOutputNorm);
  return async () => ({
    attentionNorm: await loadAttentionNorm(),
    qkv: await loadMatrix(gpu, qkv),
    qkvMore: await loadMore(),
    attentionOutput: { matrix: await loadMatrix(gpu, output), ...(await loadOutputBias()) },
    attentionOutputNorm: await loadOutputNorm(),
    feedForwardNorm: await loadFeedForwardNorm(),
    feedForward: await loadFeedForward(),
    feedForwardOutputNorm: await loadFeedForwardOutputNorm(),
  });
}

/** Paired where it may be; one row below the other where formats change between rows of a pair. */
export async function loadMatrix(gpu: Gpu, { sources, columns, half }: ProductSources): Promise<WeightMatrix> {
  const paired = half === undefined ? undefined : await WeightMatrix.loadPaired(gpu, columns, sources, half);
  return paired ?? WeightMatrix.load(gpu, columns, sources);
}

/** A bias [rows], where it has a name. */
export function findBias(
  { gpu, tensors }: WeightsPlace,
  name: VectorName | undefined,
  rows: number,
): LoadPart<{ readonly bias?: GPUBuffer }> {
  if (!name) return async () => ({});
  tensors.findVector(name, rows);
  return async () => ({ bias: await upload(gpu, name.tensor, await tensors.vector(name, rows)) });
}

function findNorm({ gpu, tensors, config }: WeightsPlace, { weight, bias }: NormName): LoadPart<NormWeights> {
  const { hiddenSize, norm } = config;
  tensors.findVector({ tensor: weight }, hiddenSize);
  if (bias !== undefined) tensors.findVector({ tensor: bias }, hiddenSize);
  if (norm.kind === 'layer' && bias === undefined) throw new Error(`LayerNorm ${weight} has no bias`);
  return async () => {
    const gain = (await tensors.vector({ tensor: weight }, hiddenSize)).map((value) => value + norm.gainOffset);
    return {
      gain: await upload(gpu, weight, gain),
      ...(bias === undefined
        ? {}
        : { bias: await upload(gpu, bias, await tensors.vector({ tensor: bias }, hiddenSize)) }),
    };
  };
}

function findQkvMore(
  { gpu, tensors, config }: WeightsPlace,
  index: number,
  { query, key, value, queryNorm, keyNorm }: LayerNames,
): LoadPart<GPUBuffer | undefined> {
  const { heads, kvHeads, headSize, qkvBias, qkNorm } = config.layers[index]!.attention;
  if (!qkvBias && !qkNorm) return async () => undefined;
  const rows = [heads * headSize, kvHeads * headSize, kvHeads * headSize] as const;
  const pieces: { readonly name: VectorName | undefined; readonly length: number; readonly add: number }[] = [
    ...[query, key, value].map(({ bias }, i) => {
      if (qkvBias && !bias) throw new Error(`a bias of layer ${index} has no name`);
      return { name: qkvBias ? bias : undefined, length: rows[i]!, add: 0 };
    }),
    ...(qkNorm ? [queryNorm, keyNorm] : []).map((norm, i) => ({
      name: { tensor: norm!.weight },
      length: qkNorm === 'row' ? rows[i]! : headSize,
      add: config.norm.gainOffset,
    })),
  ];
  for (const { name, length } of pieces) if (name) tensors.findVector(name, length);
  return async () => {
    const all: number[] = [];
    for (const { name, length, add } of pieces) {
      if (!name) all.push(...new Float32Array(length));
      else for (const number of await tensors.vector(name, length)) all.push(number + add);
    }
    return upload(gpu, `more of q, k, v ${index}`, Float32Array.from(all));
  };
}

/** Padded to whole words. */
export async function upload(gpu: Gpu, label: string, values: Float32Array<ArrayBuffer>): Promise<GPUBuffer> {
  const buffer = await gpu.storage(label, rowWords(values.length) * 16);
  gpu.device.queue.writeBuffer(buffer, 0, values);
  return buffer;
}
