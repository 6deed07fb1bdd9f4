import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pairedPlace } from './pair-order.ts';
import { planSegments, segmentTiles } from './plan-segments.ts';
import { type MatrixFormat, TILE_ROWS, tileBytes } from './weight-format.ts';

test('each row of each segment lies in one part, at its place in its segment, whatever the limit', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 150 }),
      fc.boolean(),
      fc.integer({ min: 1, max: 12 }),
      fc.array(fc.constantFrom<MatrixFormat>('f32', 'f16'), { minLength: 6, maxLength: 6 }),
      (segments, half, paired, limitTiles, formats) => {
        const columns = 8;
        const rows = 2 * half;
        const limit = limitTiles * tileBytes('f32', columns);
        const sources = Array.from({ length: segments }, (_, i) =>
          [0, 1].map((j) => ({ label: `${i}.${j}`, rows: half, format: formats[i]! })),
        );
        const plans = planSegments(columns, sources, limit, paired)!;
        const tiles = segmentTiles(rows, paired);
        const at = new Map<string, number>();
        let next = 0;
        for (const plan of plans) {
          expect(plan.firstRow).toBe(next);
          next += plan.tiles * TILE_ROWS;
          expect(plan.tiles * tileBytes(plan.format, columns)).toBeLessThanOrEqual(limit);
          for (const { source, from, rows: own, at: first, within } of plan.pieces) {
            expect(source.format).toBe(plan.format);
            for (let i = 0; i < own; i++) {
              const place = plan.place(first + i);
              expect(place >= within![0] && place < within![1]).toBe(true);
              if (place < 0 || place >= plan.tiles * TILE_ROWS) continue;
              const key = `${source.label} ${from + i}`;
              expect(at.has(key)).toBe(false);
              at.set(key, plan.firstRow + place);
            }
          }
        }
        expect(next).toBe(segments * tiles * TILE_ROWS);
        for (let segment = 0; segment < segments; segment++) {
          for (let row = 0; row < rows; row++) {
            const inSegment = paired ? pairedPlace(row, half) : row;
            const key = `${segment}.${row < half ? 0 : 1} ${row % half}`;
            expect(at.get(key)).toBe(segment * tiles * TILE_ROWS + inSegment);
          }
        }
      },
    ),
    { numRuns: 40 },
  );
});

test('parts are cut at whole segments where one fits', () => {
  const sources = Array.from({ length: 5 }, () => [{ label: 'expert', rows: 130, format: 'f32' as const }]);
  const limit = 7 * tileBytes('f32', 8);
  expect(planSegments(8, sources, limit, false)!.map(({ tiles }) => tiles)).toEqual([6, 6, 3]);
});
