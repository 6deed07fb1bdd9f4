import { expect } from 'vitest';
import type { TopLogProbs } from '../../src/contract/gen/sglang_scheduler_pb.ts';
import { cases } from './golden.ts';

export type Pair = readonly [id: number, logprob: number];

export function expectNear(actual: readonly number[], expected: readonly number[], tolerance: number): void {
  expect(actual).toHaveLength(expected.length);
  for (const [i, value] of expected.entries()) {
    if (!(Math.abs(actual[i]! - value) < tolerance)) expect.fail(`at ${i}: ${actual[i]}, and should be ${value}`);
  }
}

/** Best logprobs of one position; two nearly equal ones may change places. */
export function expectTop(actual: TopLogProbs, expected: readonly Pair[]): void {
  expectNear(
    actual.values,
    expected.map(([, logprob]) => logprob),
    cases.tolerance.logprob,
  );
  for (const [k, [id, logprob]] of expected.entries()) {
    const at = actual.tokenIds.indexOf(id);
    if (at === -1) expect(Math.abs(actual.values[k]! - logprob)).toBeLessThan(cases.tolerance.logprob);
    else expect(Math.abs(actual.values[at]! - logprob)).toBeLessThan(cases.tolerance.logprob);
  }
}
