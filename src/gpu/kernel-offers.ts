import type { AttentionShape } from './attention.ts';
import { ATTENTION_FORMS, type AttentionForm, attentionChoices, DEFAULT_ATTENTION } from './attention-choice.ts';
import { choiceName, type ForcedKernel } from './choice-name.ts';
import type { Precision } from './kernel-choices.ts';
import type { KernelNeeds } from './kernel-needs.ts';
import { candidates } from './linear-candidates.ts';
import { defaultChoice, type LinearChoice, type LinearPartShape, MATVEC_COLUMNS } from './linear-choice.ts';
import { linearFeatures } from './linear-features.ts';
import { checkVariant, type LinearForm, type LinearPath, type LinearVariant, variantName } from './linear-variant.ts';

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
      // A CPU's default is nothing but the fastest: what GPUs are offered is right there, too.
      const more = features.software
        ? [defaultChoice(part, form, false), ...candidates(part, form, { ...features, software: false }, precision)]
        : [];
      return [[...offered, ...more].find((choice) => isOfPath(choice, forced.path)) ?? offered[0]!];
    };
    return { attention, linear };
  }
  if (forced && 'variant' in forced) {
    const asked = uniform(forced.variant);
    return {
      attention,
      linear: (part, form) => (canBe(asked, part, form) ? [asked] : all(part, form).slice(0, 1)),
    };
  }
  return { attention, linear: forced ? (part, form) => all(part, form).slice(0, 1) : all };
}

/** Nothing but what is taken where all else may have lost a device. */
export const PLAIN_OFFERS: KernelOffers = {
  linear: (part, form) => [defaultChoice(part, form, false)],
  attention: () => [DEFAULT_ATTENTION.whole],
};

/** Throws RangeError where nothing of a model can be made of what a user asks for. */
export function checkForced(offers: KernelOffers, { products, attention }: KernelNeeds, forced: ForcedKernel): void {
  const chosen = products.map(({ part, form }) => offers.linear(part, form)[0]!);
  const refuse = (name: string): never => {
    throw new RangeError(`nothing of this model can be of ${name} on this GPU`);
  };
  if ('attention' in forced) {
    if (offers.attention(attention)[0] !== forced.attention) refuse(forced.attention);
  } else if ('path' in forced) {
    if (!chosen.some((choice) => isOfPath(choice, forced.path))) refuse(forced.path);
  } else {
    const name = choiceName(uniform(forced.variant));
    if (!chosen.some((choice) => choiceName(choice) === name)) refuse(variantName(forced.variant));
  }
}

/** By its product of many columns: of a few, no choice is made of fragments. */
function isOfPath({ matmul }: LinearChoice, path: LinearPath): boolean {
  return matmul.path === path;
}

function uniform(variant: LinearVariant): LinearChoice {
  return { splits: variant.splitThreads, matvec: MATVEC_COLUMNS.map(() => variant), matmul: variant };
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
