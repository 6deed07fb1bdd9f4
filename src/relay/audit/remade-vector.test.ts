import fc from 'fast-check';
import { expect, test } from 'vitest';
import { judgeVector } from './remade-vector.ts';
import { VECTOR_TOLERANCES, vectorToleranceOf } from './tolerance.ts';

const unit = (values: readonly number[]) => {
  const length = Math.hypot(...values);
  return Float32Array.from(values, (value) => value / length);
};

test('vectors of length 1 pass where their cosine is at least 0.9999, between exact nodes', () => {
  const directions = fc
    .array(fc.integer({ min: -1000, max: 1000 }), { minLength: 2, maxLength: 64 })
    .filter((values) => values.some((value) => value !== 0));
  const angles = fc
    .double({ min: 0, max: 0.03, noNaN: true })
    .filter((angle) => Math.abs(Math.cos(angle) - 0.9999) > 1e-6);
  fc.assert(
    fc.property(directions, angles, (values, angle) => {
      const one = unit([...values, 0]);
      // Turned by the angle towards an axis that it has nothing of.
      const other = one.map((value) => value * Math.cos(angle));
      other[other.length - 1] = Math.sin(angle);
      const { verdict } = judgeVector(one, other, VECTOR_TOLERANCES.exact);
      expect(verdict).toBe(Math.cos(angle) >= 0.9999 ? 'passes' : 'fails');
      expect(judgeVector(other, one, VECTOR_TOLERANCES.exact).verdict).toBe(verdict);
    }),
  );
});

test('where one is fast it is 0.91: two texts are further apart, and 8-bit products are not', () => {
  const at = (cosine: number) =>
    judgeVector(unit([1, 0]), Float32Array.of(cosine, Math.sqrt(1 - cosine ** 2)), vectorToleranceOf('exact', 'fast'))
      .verdict;
  // As MiniLM's vectors in q4, and as its two texts that are most alike (src/model/vector-tolerance.gpu.test.ts).
  expect([at(1 - 0.0721 ** 2), at(0.92), at(0.9), at(1 - 0.507 ** 2)]).toEqual(['passes', 'passes', 'fails', 'fails']);
});

test('logits of a classifier pass by their distance: beside 1 where they are small, beside their length where not', () => {
  const judge = (one: number[], other: number[]) =>
    judgeVector(Float32Array.from(one), Float32Array.from(other), VECTOR_TOLERANCES.exact).verdict;
  expect(judge([0.001], [-0.001])).toBe('passes');
  expect(judge([0.5], [0.6])).toBe('fails');
  expect(judge([200, -3], [201, -3])).toBe('passes');
  expect(judge([200, -3], [205, -3])).toBe('fails');
  expect(judge([0, 0], [0, 0])).toBe('passes');
});
