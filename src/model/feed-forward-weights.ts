import type { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { FeedForwardNames } from './architecture.ts';
import type { FeedForwardConfig } from './decoder-config.ts';
import {
  findBias,
  type LoadPart,
  loadMatrix,
  type ProductWeights,
  upload,
  type WeightsPlace,
} from './decoder-weights.ts';
import { type ExpertsWeights, findExperts } from './experts-weights.ts';
import { feedForwardSources } from './layer-sources.ts';

export type FeedForwardWeights = DenseWeights | ExpertsWeights;

/** A dense feed-forward network on the GPU. */
export interface DenseWeights {
  readonly kind: 'dense';
  /** Gate | up [2 size, hiddenSize], or up alone. */
  readonly inner: WeightMatrix;
  /** A row of the inner product. */
  readonly innerBias: GPUBuffer | undefined;
  readonly down: ProductWeights;
}

/** Looks a layer's feed-forward network up, to be loaded later. Throws CheckpointError. */
export function findFeedForward(
  place: WeightsPlace,
  config: FeedForwardConfig,
  names: FeedForwardNames,
): LoadPart<FeedForwardWeights> {
  if (config.kind === 'experts') return findExperts(place, config, names);
  const { gpu, tensors } = place;
  const { hiddenSize } = place.config;
  const { inner, down } = feedForwardSources(tensors, hiddenSize, config, names);
  const loadInnerBias = findInnerBias(place, config, names);
  const loadDownBias = findBias(place, names.kind === 'experts' ? undefined : names.down.bias, hiddenSize);
  return async () => ({
    kind: 'dense',
    inner: await loadMatrix(gpu, inner),
    innerBias: await loadInnerBias(),
    down: { matrix: await loadMatrix(gpu, down), ...(await loadDownBias()) },
  });
}

function findInnerBias(
  { gpu, tensors }: WeightsPlace,
  { size, bias }: Exclude<FeedForwardConfig, { kind: 'experts' }>,
  names: FeedForwardNames,
): LoadPart<GPUBuffer | undefined> {
  if (!bias || names.kind === 'experts') return async () => undefined;
  const products = names.kind === 'gated' ? [names.gate, names.up] : [names.up];
  const biases = products.map((product) => {
    if (!product.bias) throw new Error(`${product.weight.tensor} has no bias`);
    tensors.findVector(product.bias, size);
    return product.bias;
  });
  return async () => {
    const all = new Float32Array(biases.length * size);
    for (const [i, name] of biases.entries()) all.set(await tensors.vector(name, size), i * size);
    return upload(gpu, `bias of ${products.map(({ weight }) => weight.tensor).join(' | ')}`, all);
  };
}
