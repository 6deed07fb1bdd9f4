import { linearReference } from './linear.reference.ts';
import type { LowRankMatrices } from './low-rank-slots.ts';

/** What an adapter adds to a product of x [columns]: B · (A · x), [outputs]. */
export function lowRankReference({ rank, a, b }: LowRankMatrices, x: Float32Array): Float32Array {
  return linearReference(b, b.length / rank, linearReference(a, rank, x));
}
