import type { TopLogProbs } from '../gen/sglang_scheduler_pb.ts';

/** Two sums of the same float32 exponentials. */
const NEAR = 1e-3;

/** Throws an Error that says `what` is wrong. */
export function that(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

export function isLogprob(value: number | undefined): boolean {
  return value !== undefined && Number.isFinite(value) && value <= 0.01;
}

export function near(a: number, b: number): boolean {
  return Math.abs(a - b) <= NEAR * Math.max(1, Math.abs(a));
}

export function same(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, at) => Object.is(value, b[at]));
}

export function sameLists(a: readonly TopLogProbs[], b: readonly TopLogProbs[]): boolean {
  return (
    a.length === b.length &&
    a.every((list, at) => {
      const other = b[at] as TopLogProbs;
      return same(list.tokenIds, other.tokenIds) && same(list.values, other.values);
    })
  );
}
