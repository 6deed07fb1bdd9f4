import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { dequantise } from '../checkpoint/ggml-types.ts';
import { quantShape, quantValues } from '../gpu/quant-format.ts';
import { GGML_QUANT_TYPES, ggmlQuantFormat, repackGgml } from './ggml-quants.ts';

test.each(GGML_QUANT_TYPES)('%s: scale · quant + min are the golden values, bit for bit', (type) => {
  const bytes = new Uint8Array(readFileSync(new URL(`../testing/golden/gguf/${type}.bin`, import.meta.url)));
  const { bits, block } = quantShape(ggmlQuantFormat(type));
  const rows = repackGgml(type, bytes);
  const [least, most] = bits === 4 ? [0, 15] : [-128, 127];
  expect(rows.quants.every((quant) => quant >= least && quant <= most)).toBe(true);
  // A zero's sign is lost where a minimum is added to it: -0 + 0 is 0.
  expect(quantValues(rows, block).map((value) => value + 0)).toEqual(dequantise(type, bytes).map((value) => value + 0));
  expect(() => repackGgml(type, bytes.subarray(1))).toThrow(RangeError);
});
