import { linearReference } from './linear.reference.ts';

/** Of each entry the product of its segment [rows, x's columns] and x; undefined where it has no segment. */
export function segmentedReference(
  segments: readonly Float32Array[],
  rows: number,
  entries: readonly { readonly segment: number | undefined; readonly x: Float32Array }[],
): (Float32Array | undefined)[] {
  return entries.map(({ segment, x }) =>
    segment === undefined ? undefined : linearReference(segments[segment]!, rows, x),
  );
}
