import { ATTENTION_FORMS, type AttentionForm } from './attention-choice.ts';
import type { LinearChoice } from './linear-choice.ts';
import { LINEAR_PATHS, type LinearVariant, linearVariantOf, variantName } from './linear-variant.ts';

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
  | { readonly path: string }
  | { readonly variant: LinearVariant }
  | { readonly attention: AttentionForm };

/** Throws RangeError where no kernel is named so. */
export function forcedKernel(name: string): ForcedKernel {
  const attention = ATTENTION_FORMS.find((form) => form === name);
  if (attention) return { attention };
  return LINEAR_PATHS.some((path) => path === name) ? { path: name } : { variant: linearVariantOf(name) };
}

/** Whether each of a choice's variants has this path. */
export function isOfPath({ matvec, matmul }: LinearChoice, path: string): boolean {
  return [...matvec, matmul].every((variant) => variant.path === path);
}
