import type { NodeFacts } from '../node-facts.ts';

export type PrecisionName = NodeFacts['precision'];

/**
 * How far logprobs of one token may lie apart at two honest nodes: twice the most that was measured, and more, between
 * kernels of each pair of precisions (src/model/tolerance.gpu.test.ts). Exact ones differ in the order of their f32 sums;
 * with fast ones the coarsest counts, 8-bit dot products.
 */
export function toleranceOf(one: PrecisionName, other: PrecisionName): number {
  return one === 'exact' && other === 'exact' ? AUDIT_TOLERANCES.exact : AUDIT_TOLERANCES.fast;
}

/** Where both nodes are exact, and where one isn't. */
export const AUDIT_TOLERANCES = { exact: 0.01, fast: 0.6 } as const;

/**
 * Likewise of vectors: |a - b| / √2 of two of length 1, so that their cosine is 1 - its square. Four times the most that was measured, and more
 * (src/model/vector-tolerance.gpu.test.ts): a model of six layers was, and deeper ones add up more.
 */
export function vectorToleranceOf(one: PrecisionName, other: PrecisionName): number {
  return one === 'exact' && other === 'exact' ? VECTOR_TOLERANCES.exact : VECTOR_TOLERANCES.fast;
}

export const VECTOR_TOLERANCES = { exact: 0.01, fast: 0.3 } as const;
