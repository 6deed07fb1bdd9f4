import { ATTENTION_FORMS, type AttentionForm } from './attention-choice.ts';
import type { Precision } from './kernel-choices.ts';
import type { LinearChoice } from './linear-choice.ts';
import {
  isFast,
  LINEAR_PATHS,
  type LinearPath,
  type LinearVariant,
  linearVariantOf,
  variantName,
} from './linear-variant.ts';

/** Names a choice among those of one product: its splits and variants, equal neighbours once. */
export function choiceName({ splits, matvec, matmul }: LinearChoice): string {
  const names: string[] = [];
  matvec.forEach((variant, i) => {
    const name = variantName(variant);
    if (i === 0 || name !== variantName(matvec[i - 1]!)) names.push(`${i + 1}:${name}`);
  });
  return [`${splits}`, ...names, `*:${variantName(matmul)}`].join(' ');
}

/** A path, or a variant, that a user wants products made of, or a form that attention is to have. */
export type ForcedKernel =
  | { readonly path: LinearPath }
  | { readonly variant: LinearVariant }
  | { readonly attention: AttentionForm };

/** Throws RangeError where no kernel is named so, or `precision` has none of it. */
export function forcedKernel(name: string, precision: Precision): ForcedKernel {
  const attention = ATTENTION_FORMS.find((form) => form === name);
  if (attention) return { attention };
  const path = LINEAR_PATHS.find((known) => known === name);
  const forced = path ? { path } : { variant: linearVariantOf(name) };
  if (precision === 'exact' && isFast(path ?? forced.variant!.path)) {
    throw new RangeError(`kernel ${name} is of precision fast, and exact is what this node tells the relay`);
  }
  return forced;
}
