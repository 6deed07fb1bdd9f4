import fc from 'fast-check';
import { expect, it } from 'vitest';
import { backoffMs } from './backoff.ts';

it('stays between 0.2 and 5 seconds, and spreads over the whole of it', () => {
  fc.assert(
    fc.property(fc.nat(100_000), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (failures, random) => {
      const ms = backoffMs(failures, () => random);
      expect(ms).toBeGreaterThanOrEqual(200);
      expect(ms).toBeLessThanOrEqual(5_000);
    }),
  );
  expect(backoffMs(50, () => 0)).toBe(200);
  expect(backoffMs(50, () => 0.5)).toBe(2_600);
  expect(backoffMs(0, () => 0.5)).toBe(300);
});
