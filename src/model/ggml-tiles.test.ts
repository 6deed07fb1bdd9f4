import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GGML_FORMATS } from '../checkpoint/ggml-types.ts';
import { packQuants, packScales } from '../gpu/pack-tiles.ts';
import { quantShape } from '../gpu/quant-format.ts';
import { GGML_QUANT_TYPES, ggmlQuantFormat, repackGgml } from './ggml-quants.ts';
import { ggmlPacker } from './ggml-tiles.ts';

const TYPES = GGML_QUANT_TYPES.filter((type) => ggmlPacker(type) !== undefined);
const UNTOUCHED = 0x5a5a5a5a;

test('the commonest types are packed in one go', () => {
  expect(TYPES).toEqual(['Q4_0', 'Q4_1', 'Q8_0']);
});

test.each(TYPES)('%s: packed as its quants and scales are, or refused alike', (type) => {
  const { bytes: stride } = GGML_FORMATS[type];
  const shape = quantShape(ggmlQuantFormat(type));
  const rows = fc.uniqueArray(fc.integer({ min: 0, max: 127 }), { minLength: 1, maxLength: 5 });
  // Any bits, but for the scales half of the time: those that a half keeps, and the edges.
  const halves = fc.oneof(
    fc.constantFrom(0, 0x8000, 1, 0x0400, 0x6c00, 0x6fff, 0x7000, 0x7bff, 0xfbff),
    fc.nat(0xffff).map((half) => (half & 0x0fff) | 0x3000),
  );
  fc.assert(
    fc.property(
      rows,
      fc.integer({ min: 1, max: 3 }),
      fc.infiniteStream(halves),
      fc.nat(),
      (places, units, some, seed) => {
        const count = places.length * units;
        const bytes = Uint8Array.from({ length: count * stride + 2 }, (_, i) => Math.imul(seed + i, 0x9e3779b1) >>> 24);
        // Where a file has it in the middle of a word.
        const blocks = bytes.subarray(2);
        const view = new DataView(blocks.buffer, blocks.byteOffset);
        for (let block = 0; block < count; block++) {
          view.setUint16(block * stride, some.next().value, true);
          if (type === 'Q4_1') view.setUint16(block * stride + 2, some.next().value, true);
        }
        const columns = 32 * units;
        const at = Int32Array.of(...places);
        if (places.length > 2) at[1] = -1;
        const stretches = () => [
          new Uint32Array(128 * units * shape.bits).fill(UNTOUCHED),
          new Uint32Array(128 * units).fill(UNTOUCHED),
        ];
        const [weights, scales] = stretches();
        const [expectedWeights, expectedScales] = stretches();
        const unpacked = repackGgml(type, blocks);
        packQuants(expectedWeights!, at, columns, unpacked.quants, shape.bits);
        const exact = packScales(expectedScales!, at, columns, unpacked, shape);
        expect(ggmlPacker(type)!(weights!, scales!, at, columns, blocks)).toBe(exact);
        if (!exact) return;
        expect(weights).toEqual(expectedWeights);
        expect(scales).toEqual(expectedScales);
      },
    ),
  );
});
