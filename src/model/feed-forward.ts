import { ActivateRows } from '../gpu/activate-rows.ts';
import type { Gpu } from '../gpu/gpu.ts';
import type { ExpertsConfig, FeedForwardConfig } from './decoder-config.ts';
import type { NormWeights } from './decoder-weights.ts';
import { Experts, expertsKey } from './experts.ts';
import type { ExpertsWeights } from './experts-weights.ts';
import type { DenseWeights, FeedForwardWeights } from './feed-forward-weights.ts';
import type { LayerScratch } from './layer-scratch.ts';
import type { AddOptions, ResidualStream } from './residual-stream.ts';
import type { RowsKernel } from './rows-kernel.ts';
import { adaptedProduct, productInOrder, type SiteAdapters } from './site-adapters.ts';

/** Where a layer's feed-forward network stands. */
export interface FeedForwardPlace {
  readonly stream: ResidualStream;
  /** Of its input; absent: it has none. */
  readonly norm: NormWeights | undefined;
  readonly add: AddOptions;
  readonly scratch: LayerScratch;
  /** What rows' adapters add to the inner product; `add` has those of what goes back. */
  readonly adapters?: SiteAdapters | undefined;
}

/** A layer's feed-forward network, from the stream and back into it. */
export async function createFeedForward(
  gpu: Gpu,
  config: FeedForwardConfig,
  weights: FeedForwardWeights,
  place: FeedForwardPlace,
): Promise<RowsKernel> {
  if (config.kind === 'experts' && weights.kind === 'experts') return mixture(gpu, config, weights, place);
  if (config.kind !== 'experts' && weights.kind === 'dense') return dense(gpu, config, weights, place);
  throw new Error(`${weights.kind} weights of a ${config.kind} network`);
}

async function dense(
  gpu: Gpu,
  config: Exclude<FeedForwardConfig, { kind: 'experts' }>,
  { inner, innerBias, down }: DenseWeights,
  { stream, norm, add, scratch, adapters }: FeedForwardPlace,
): Promise<RowsKernel> {
  const { size, activation } = config;
  const gated = scratch.gated!;
  const reader = await stream.reader(norm);
  const activated = async (): Promise<readonly RowsKernel[]> => {
    const { step } = stream;
    if (inner.paired && (activation === 'silu' || activation === 'gelu-tanh')) {
      const finish = { kind: 'gate', activation } as const;
      if (!adapters) return [await reader.product(inner, gated, size, finish)];
      return adaptedProduct(gpu, adapters, step, reader, { matrix: inner, output: gated, columns: size, finish });
    }
    const both = scratch.inner!;
    const shape = { columns: size, activation, gated: config.kind === 'gated' };
    return Promise.all([
      ...productInOrder(gpu, step, reader, inner, both, adapters),
      ActivateRows.create(gpu, shape, { step, input: both, bias: innerBias, output: gated }),
    ]);
  };
  const [before, after] = await Promise.all([activated(), stream.adder(down, gated, add)]);
  const kernels = [...reader.kernels, ...before, ...after];
  return {
    encode(pass, rows) {
      for (const kernel of kernels) kernel.encode(pass, rows);
    },
  };
}

async function mixture(
  gpu: Gpu,
  config: ExpertsConfig,
  weights: ExpertsWeights,
  { stream, norm, add, scratch }: FeedForwardPlace,
): Promise<RowsKernel> {
  const [{ kernels, input, norm: ofInput }, { output, finish, after }] = await Promise.all([
    stream.reader(norm),
    stream.combined(add),
  ]);
  const experts = await Experts.create(gpu, stream.columns, config, weights, scratch.experts.get(expertsKey(config))!, {
    step: stream.step,
    input,
    ...(ofInput ? { norm: ofInput } : {}),
    output,
    finish,
  });
  const all = [...kernels, experts, ...after];
  return {
    encode(pass, rows) {
      for (const kernel of all) kernel.encode(pass, rows);
    },
  };
}
