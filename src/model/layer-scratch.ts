import type { Gpu } from '../gpu/gpu.ts';
import { rowWords } from '../gpu/row-words.ts';
import type { DecoderConfig, ExpertsConfig } from './decoder-config.ts';
import type { DecoderWeights } from './decoder-weights.ts';
import { anyAttention } from './describe-decoder.ts';
import { allocateExperts, type ExpertsScratch, expertsKey } from './experts.ts';

/** Buffers that layers use one after the other, one a purpose: no dispatch may read and write one buffer. */
export interface LayerScratch {
  /** [rows, heads · headSize] */
  readonly query: GPUBuffer;
  readonly attended: GPUBuffer;
  /** Of layers whose q, k, v don't come out of their product as attention takes them. */
  readonly qkv: GPUBuffer | undefined;
  /** What down multiplies, of dense networks: rows of the layer's own size, in room for the largest. */
  readonly gated: GPUBuffer | undefined;
  /** Of networks whose activation isn't the finish of a product. */
  readonly inner: GPUBuffer | undefined;
  /** By expertsKey. */
  readonly experts: ReadonlyMap<string, ExpertsScratch>;
}

export async function allocateScratch(
  gpu: Gpu,
  config: DecoderConfig,
  weights: DecoderWeights,
  rows: number,
  step: GPUBuffer,
): Promise<LayerScratch> {
  const { layers } = config;
  const { heads, headSize } = anyAttention(config);
  const largest = (label: string, columns: readonly number[]) => {
    const most = Math.max(0, ...columns);
    return most > 0 ? gpu.storage(label, rows * rowWords(most) * 16) : undefined;
  };
  const dense = layers.flatMap(({ feedForward }) => (feedForward.kind === 'experts' ? [] : [feedForward.size]));
  const mixtures = new Map<string, ExpertsConfig>();
  for (const { feedForward } of layers) {
    if (feedForward.kind === 'experts') mixtures.set(expertsKey(feedForward), feedForward);
  }
  const [query, attended, qkv, gated, inner, ...experts] = await Promise.all([
    gpu.storage('query', rows * rowWords(heads * headSize) * 16),
    gpu.storage('attended', rows * rowWords(heads * headSize) * 16),
    largest(
      'qkv',
      weights.layers.map(({ qkv: matrix }) => (matrix.paired ? 0 : matrix.rows)),
    ),
    largest('gated', dense),
    largest(
      'inner',
      weights.layers.map(({ feedForward }) =>
        feedForward.kind === 'experts' || feedForward.inner.paired ? 0 : feedForward.inner.rows,
      ),
    ),
    ...Array.from(mixtures, async ([key, mixture]) => {
      return [key, await allocateExperts(gpu, config.hiddenSize, mixture, rows, step)] as const;
    }),
  ]);
  return { query, attended, qkv, gated, inner, experts: new Map(experts) };
}
