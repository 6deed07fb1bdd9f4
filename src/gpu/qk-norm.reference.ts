import { rmsNormReference } from './rms-norm.reference.ts';
import type { QkNorm } from './rope.ts';

/** A row of heads of q, k and v with q and k normed; `gains`: of a head of q and one of k, or of all of q and all of k. */
export function qkNormReference(
  row: Float32Array,
  gains: Float32Array,
  shape: { readonly heads: number; readonly kvHeads: number; readonly headSize: number },
  of: QkNorm,
  epsilon: number,
): Float32Array {
  const { heads, kvHeads, headSize } = shape;
  const normed = Float32Array.from(row);
  const norm = (at: number, gain: Float32Array) => {
    normed.set(rmsNormReference(row.slice(at, at + gain.length), gain, epsilon), at);
  };
  if (of === 'row') {
    norm(0, gains.slice(0, heads * headSize));
    norm(heads * headSize, gains.slice(heads * headSize));
  } else {
    for (let head = 0; head < heads + kvHeads; head++) {
      const gainAt = head < heads ? 0 : headSize;
      norm(head * headSize, gains.slice(gainAt, gainAt + headSize));
    }
  }
  return normed;
}
