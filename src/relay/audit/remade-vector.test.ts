import fc from 'fast-check';
import { expect, test } from 'vitest';
import { judgeVector } from './remade-vector.ts';
import { AUDIT_TOLERANCES } from './tolerance.ts';

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
      const { verdict } = judgeVector(one, other, AUDIT_TOLERANCES.exact);
      expect(verdict).toBe(Math.cos(angle) >= 0.9999 ? 'passes' : 'fails');
      expect(judgeVector(other, one, AUDIT_TOLERANCES.exact).verdict).toBe(verdict);
    }),
  );
});

test('logits of a classifier pass by their distance: beside 1 where they are small, beside their length where not', () => {
  const judge = (one: number[], other: number[]) =>
    judgeVector(Float32Array.from(one), Float32Array.from(other), AUDIT_TOLERANCES.exact).verdict;
  expect(judge([0.001], [-0.001])).toBe('passes');
  expect(judge([0.5], [0.6])).toBe('fails');
  expect(judge([200, -3], [201, -3])).toBe('passes');
  expect(judge([200, -3], [205, -3])).toBe('fails');
  expect(judge([0, 0], [0, 0])).toBe('passes');
});
