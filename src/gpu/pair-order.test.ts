import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pairedPlace, pairedRows } from './pair-order.ts';

test('every row has a place of its own, 32 rows from its partner, and pairs come in order', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 6 }), (half, groups) => {
      const rows = 2 * half * groups;
      const places = Array.from({ length: rows }, (_, row) => pairedPlace(row, half));
      expect(new Set(places).size).toBe(rows);
      expect(Math.max(...places)).toBeLessThan(pairedRows(rows / 2));
      for (let pair = 0; pair < rows / 2; pair++) {
        const first = places[2 * half * Math.floor(pair / half) + (pair % half)]!;
        expect(places[2 * half * Math.floor(pair / half) + (pair % half) + half]).toBe(first + 32);
        // What linear.wgsl's pairOf makes of the first row.
        const [tile, row] = [Math.floor(first / 64), first % 64];
        expect((tile * 8 + (row % 8)) * 4 + Math.floor(row / 8)).toBe(pair);
      }
    }),
  );
});
