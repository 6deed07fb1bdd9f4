import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Checkpoint, TensorInfo } from './checkpoint.ts';
import { interleavedRow, readInterleavedRows } from './interleaved-rows.ts';

it('pairs row j of a head with row j + half of it', () => {
  expect([0, 1, 2, 3, 4, 5, 6, 7].map((row) => interleavedRow(row, 8))).toEqual([0, 2, 4, 6, 1, 3, 5, 7]);
  expect([8, 9, 14, 15].map((row) => interleavedRow(row, 8))).toEqual([8, 10, 13, 15]);
});

it('gives any range of bytes as a whole read does, and reads at most two heads more', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        heads: fc.integer({ min: 1, max: 5 }),
        half: fc.integer({ min: 1, max: 4 }),
        rowBytes: fc.integer({ min: 1, max: 7 }),
        cuts: fc.tuple(fc.nat(), fc.nat()),
      }),
      async ({ heads, half, rowBytes, cuts }) => {
        const rows = heads * half * 2;
        const bytes = Uint8Array.from({ length: rows * rowBytes }, (_, i) => (i * 37) % 251);
        const tensor: TensorInfo = {
          name: 't',
          dtype: 'U8',
          shape: [rows, rowBytes],
          offset: 0,
          byteLength: bytes.length,
        };
        let read = 0;
        const checkpoint: Checkpoint = {
          name: 'm',
          tensors: new Map([['t', tensor]]),
          async read(_, from = 0, length = bytes.length - from) {
            read += length;
            return bytes.subarray(from, from + length);
          },
        };
        // Each head as [pair, first or second of it, column] → [first or second, pair, column].
        const expected = new Uint8Array(bytes.length);
        for (let head = 0; head < heads; head++) {
          for (let pair = 0; pair < half; pair++) {
            for (const second of [0, 1]) {
              const from = (head * half * 2 + 2 * pair + second) * rowBytes;
              expected.set(bytes.subarray(from, from + rowBytes), (head * half * 2 + second * half + pair) * rowBytes);
            }
          }
        }
        const [start, end] = cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b) as [number, number];
        expect(await readInterleavedRows(checkpoint, tensor, half * 2, start, end - start)).toEqual(
          expected.subarray(start, end),
        );
        expect(read).toBeLessThanOrEqual(end - start + 2 * half * 2 * rowBytes);
      },
    ),
    { numRuns: 300 },
  );
});
