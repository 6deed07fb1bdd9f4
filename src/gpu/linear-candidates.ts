import type { Precision } from './kernel-choices.ts';
import { defaultChoice, type LinearChoice, type LinearPartShape } from './linear-choice.ts';
import type { LinearFeatures } from './linear-features.ts';
import type { LinearForm } from './linear-variant.ts';

/**
 * What may win on a device with `features` (linearFeatures(device)), for a part of a matrix: what is taken without a tuner
 * first. Of precision exact, each has an order of sums of its own, so choose before anything is computed.
 */
export function candidates(
  part: LinearPartShape,
  form: LinearForm,
  features: LinearFeatures,
  _precision: Precision,
): LinearChoice[] {
  return [defaultChoice(part, form, features.has('subgroups'))];
}
