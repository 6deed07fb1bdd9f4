import { expect, test } from 'vitest';
import { Canaries } from './canaries.ts';

test('a canary is new until its sample is known; then it comes again, with what it should give', () => {
  let value = 0.25;
  const canaries = new Canaries(1, 100, () => value);
  const first = canaries.next();
  expect(first.expected).toBeUndefined();
  const { inputIds, sampling, logprobStart } = first.request;
  expect([inputIds, sampling.temperature, sampling.maxNewTokens, logprobStart]).toEqual([[1], 1, 32, undefined]);
  const made = { prompt: inputIds, output: [7, 8], sampling, seed: sampling.seed!, index: 0 };
  canaries.add(made);
  // The one that is known is the first of sixteen.
  expect(canaries.next().expected).toBeUndefined();
  value = 0;
  const again = canaries.next();
  expect(again.expected).toEqual([7, 8]);
  expect(again.request).toEqual(first.request);
  // No more are kept.
  for (let at = 0; at < 40; at++) canaries.add({ ...made, output: [at] });
  value = 0.999;
  expect(canaries.next().expected).toEqual([14]);
});
