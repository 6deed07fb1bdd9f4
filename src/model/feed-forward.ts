import { ActivateRows } from '../gpu/activate-rows.ts';
import type { Gpu } from '../gpu/gpu.ts';
import type { FeedForwardConfig } from './decoder-config.ts';
import type { NormWeights } from './decoder-weights.ts';
import type { FeedForwardWeights } from './feed-forward-weights.ts';
import type { LayerScratch } from './layer-scratch.ts';
import type { AddOptions, ResidualStream } from './residual-stream.ts';
import type { RowsKernel } from './rows-kernel.ts';

/** Where a layer's feed-forward network stands. */
export interface FeedForwardPlace {
  readonly stream: ResidualStream;
  /** Of its input; absent: it has none. */
  readonly norm: NormWeights | undefined;
  readonly add: AddOptions;
  readonly scratch: LayerScratch;
}

/** A layer's feed-forward network, from the stream and back into it. */
export async function createFeedForward(
  gpu: Gpu,
  config: FeedForwardConfig,
  weights: FeedForwardWeights,
  place: FeedForwardPlace,
): Promise<RowsKernel> {
  if (config.kind === 'experts') throw new Error('experts have a network of their own');
  return dense(gpu, config, weights, place);
}

async function dense(
  gpu: Gpu,
  config: Exclude<FeedForwardConfig, { kind: 'experts' }>,
  { inner, innerBias, down }: FeedForwardWeights,
  { stream, norm, add, scratch }: FeedForwardPlace,
): Promise<RowsKernel> {
  const { size, activation } = config;
  const gated = scratch.gated!;
  const reader = await stream.reader(norm);
  const activated = async (): Promise<readonly RowsKernel[]> => {
    if (inner.paired && (activation === 'silu' || activation === 'gelu-tanh')) {
      return [await reader.product(inner, gated, size, { kind: 'gate', activation })];
    }
    const both = scratch.inner!;
    const shape = { columns: size, activation, gated: config.kind === 'gated' };
    return Promise.all([
      reader.product(inner, both, inner.rows, { kind: 'store' }),
      ActivateRows.create(gpu, shape, { step: stream.step, input: both, bias: innerBias, output: gated }),
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
