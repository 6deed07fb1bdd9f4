import { SegmentedMatrix } from '../gpu/segmented-matrix.ts';
import { WeightMatrix } from '../gpu/weight-matrix.ts';
import type { FeedForwardNames } from './architecture.ts';
import type { ExpertsConfig } from './decoder-config.ts';
import type { LoadPart, WeightsPlace } from './decoder-weights.ts';
import { expertSources } from './layer-sources.ts';

/** A mixture of experts on the GPU. */
export interface ExpertsWeights {
  readonly kind: 'experts';
  /** [experts, hiddenSize] */
  readonly router: WeightMatrix;
  /** Of each expert gate | up [2 size, hiddenSize] in pairs; where an expert has them in several formats each by itself. */
  readonly inner:
    | { readonly gateUp: SegmentedMatrix }
    | { readonly gate: SegmentedMatrix; readonly up: SegmentedMatrix };
  /** Of each expert [hiddenSize, size]. */
  readonly down: SegmentedMatrix;
}

/** Looks the experts of a layer up, to be loaded later. Throws CheckpointError. */
export function findExperts(
  { gpu, tensors, config: { hiddenSize } }: WeightsPlace,
  config: ExpertsConfig,
  names: FeedForwardNames,
): LoadPart<ExpertsWeights> {
  const { router, experts } = expertSources(tensors, hiddenSize, config, names);
  const segments = async (columns: number, of: 'gate' | 'up' | 'down') =>
    (await SegmentedMatrix.load(
      gpu,
      columns,
      experts.map((expert) => [expert[of]]),
    ))!;
  return async () => {
    const gateUp = await SegmentedMatrix.load(
      gpu,
      hiddenSize,
      experts.map(({ gate, up }) => [gate, up]),
      true,
    );
    return {
      kind: 'experts',
      router: await WeightMatrix.load(gpu, hiddenSize, [router]),
      inner: gateUp ? { gateUp } : { gate: await segments(hiddenSize, 'gate'), up: await segments(hiddenSize, 'up') },
      down: await segments(config.size, 'down'),
    };
  };
}
