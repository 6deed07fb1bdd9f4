import { expect, test } from 'vitest';
import { argmaxReference, type DrawParams, FLOAT_MAX, keptReference, logprobsReference } from './sampler.reference.ts';

const params = (more: Partial<DrawParams>): DrawParams => ({
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 0n,
  sampleIndex: 0,
  ...more,
});

// Probabilities 0.5, 0.25, 0.125, 0.125 at ids 2, 0, 1, 3.
const logits = Float32Array.from([0.25, 0.125, 0.5, 0.125], Math.log);

test.each([
  ['all', {}, [0, 1, 2, 3]],
  ['top k', { topK: 2 }, [0, 2]],
  ['top k cuts a tie at the lowest id', { topK: 3 }, [0, 1, 2]],
  ['top p keeps the token that crosses', { topP: 0.6 }, [0, 2]],
  ['top p keeps at least one', { topP: 0.01 }, [2]],
  ['min p', { minP: 0.3 }, [0, 2]],
  ['min p 1 keeps the best', { minP: 1 }, [2]],
  ['the least of all', { topK: 3, topP: 0.9, minP: 0.4 }, [0, 2]],
  ['top p is of the probabilities before top k', { topK: 2, topP: 0.55 }, [0, 2]],
] as [string, Partial<DrawParams>, number[]][])('%s', (_, more, expected) => {
  expect([...keptReference(logits, params(more))].sort()).toEqual(expected);
});

test('logprobs are finite where a probability is zero', () => {
  const logprobs = logprobsReference(Float32Array.of(3e38, -3e38), 0.01);
  expect(logprobs[0]).toBe(0);
  expect(logprobs[1]).toBe(-FLOAT_MAX);
});

test('the best of equals is the lowest id, and -0 equals +0', () => {
  expect(argmaxReference(Float32Array.of(-1, -0, 0, -0))).toBe(1);
});
