import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LatencySketch } from './latency-sketch.ts';

/** Of the list itself: nearest rank. */
function exact(values: readonly number[], q: number): number {
  return values.toSorted((a, b) => a - b)[Math.ceil(q * values.length) - 1]!;
}

test('quantiles are within 2.5 % of the nearest rank’s', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0.02, max: 3_000_000, noNaN: true }), { minLength: 1, maxLength: 300 }),
      fc.constantFrom(0.01, 0.5, 0.9, 0.99, 1),
      (values, q) => {
        const sketch = new LatencySketch();
        for (const value of values) sketch.add(value);
        const wanted = exact(values, q);
        expect(sketch.count).toBe(values.length);
        expect(Math.abs(sketch.quantile(q)! / wanted - 1)).toBeLessThan(0.0251);
      },
    ),
  );
});

test('several sketches add up to the one of all', () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.nat(10_000)), { minLength: 1, maxLength: 5 }), (parts) => {
      const [sum, all] = [new LatencySketch(), new LatencySketch()];
      for (const part of parts) {
        const sketch = new LatencySketch();
        for (const value of part) {
          sketch.add(value);
          all.add(value);
        }
        sum.addAll(sketch);
      }
      for (const q of [0.1, 0.5, 0.99]) expect(sum.quantile(q)).toBe(all.quantile(q));
    }),
  );
});

test('without a duration there is no quantile, and what is out of its range counts at the edge', () => {
  const sketch = new LatencySketch();
  expect(sketch.quantile(0.5)).toBeUndefined();
  sketch.add(-1, 3);
  sketch.add(1e12);
  expect(sketch.quantile(0.5)).toBeCloseTo(0.01, 3);
  expect(sketch.quantile(1)! / 3_600_000).toBeCloseTo(1, 1);
  sketch.clear();
  expect([sketch.count, sketch.quantile(0.5)]).toEqual([0, undefined]);
});
