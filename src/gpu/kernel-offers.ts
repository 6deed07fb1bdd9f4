import type { AttentionShape } from './attention.ts';
import { ATTENTION_FORMS, type AttentionForm, attentionChoices, DEFAULT_ATTENTION } from './attention-choice.ts';
import { type ForcedKernel, isOfPath } from './choice-name.ts';
import type { Precision } from './kernel-choices.ts';
import { candidates } from './linear-candidates.ts';
import { defaultChoice, type LinearChoice, type LinearPartShape, MATVEC_COLUMNS } from './linear-choice.ts';
import { linearFeatures } from './linear-features.ts';
import { checkVariant, type LinearForm } from './linear-variant.ts';

/** What may be chosen on a device, what is taken without a tuner first. */
export interface KernelOffers {
  readonly linear: (part: LinearPartShape, form: LinearForm) => readonly LinearChoice[];
  readonly attention: (shape: AttentionShape) => readonly AttentionForm[];
}

/** With a kernel that a user asks for, only that where it can be had. */
export function kernelOffers(device: GPUDevice, precision: Precision, forced?: ForcedKernel): KernelOffers {
  const features = linearFeatures(device);
  const all = (part: LinearPartShape, form: LinearForm) => candidates(part, form, features, precision);
  const attention = (shape: AttentionShape) => {
    const had = ATTENTION_FORMS.filter((form) => attentionChoices(shape).some(({ whole }) => whole === form));
    const asked = forced && 'attention' in forced ? had.filter((form) => form === forced.attention) : [];
    if (asked.length > 0) return asked;
    // Barriers of a CPU's threads cost too much for tiles, and their kernels take long to compile.
    return forced || features.software ? [DEFAULT_ATTENTION.whole] : had;
  };
  if (forced && 'path' in forced) {
    const linear = (part: LinearPartShape, form: LinearForm) => {
      const offered = all(part, form);
      const own = offered.find((choice) => isOfPath(choice, forced.path));
      return [own ?? (forced.path === 'plain' ? defaultChoice(part, form, false) : offered[0]!)];
    };
    return { attention, linear };
  }
  if (forced && 'variant' in forced) {
    const { variant } = forced;
    const uniform = { splits: variant.splitThreads, matvec: MATVEC_COLUMNS.map(() => variant), matmul: variant };
    return {
      attention,
      linear: (part, form) => (canBe(uniform, part, form) ? [uniform] : all(part, form).slice(0, 1)),
    };
  }
  return { attention, linear: forced ? (part, form) => all(part, form).slice(0, 1) : all };
}

function canBe({ matmul }: LinearChoice, { format }: LinearPartShape, form: LinearForm): boolean {
  try {
    checkVariant(matmul, form, format);
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}
