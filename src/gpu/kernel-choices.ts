import { type AttentionChoice, DEFAULT_ATTENTION } from './attention-choice.ts';
import { candidates } from './linear-candidates.ts';
import type { ChooseLinear } from './linear-choice.ts';
import { linearFeatures } from './linear-features.ts';

/** exact: f32 sums in an order that follows from a tensor's shape. fast: f16 or int8 products, with a tolerance of their own. */
export type Precision = 'exact' | 'fast';

/** Which variant of each family of kernels an adapter gets. Fixed before a model is loaded. */
export interface KernelChoices {
  readonly precision: Precision;
  readonly linear: ChooseLinear;
  readonly attention: AttentionChoice;
}

/** What is taken where no tuner has measured. */
export function defaultChoices(device: GPUDevice): KernelChoices {
  const features = linearFeatures(device);
  return {
    precision: 'exact',
    linear: (part, form) => candidates(part, form, features, 'exact')[0]!,
    attention: DEFAULT_ATTENTION,
  };
}
