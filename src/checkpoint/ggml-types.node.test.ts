import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import golden from '../testing/golden/gguf/index.json' with { type: 'json' };
import { firstBadBlock } from './ggml-block.ts';
import { dequantise, GGML_FORMATS, type GgmlType, ggmlType } from './ggml-types.ts';
import { sha256Hex } from './manifest.ts';

/** All but F32, which needs no golden values. */
const types = Object.keys(golden.types) as (keyof typeof golden.types & GgmlType)[];
const blocks = (type: GgmlType) =>
  new Uint8Array(readFileSync(new URL(`../testing/golden/gguf/${type}.bin`, import.meta.url)));

it('knows every type of the golden values, F32, and no other', () => {
  expect(Object.keys(GGML_FORMATS).sort()).toEqual(['F32', ...types].sort());
});

describe.each(types)('%s', (type) => {
  const facts = golden.types[type];
  const format = GGML_FORMATS[type];

  it('has the sizes and the number of the format', () => {
    expect([format.values, format.bytes]).toEqual([facts.block_size, facts.bytes_per_block]);
    expect(ggmlType(facts.ggml_type)).toBe(type);
  });

  it('gives the golden values bit for bit', async () => {
    const bytes = blocks(type);
    expect(await sha256Hex(bytes)).toBe(facts.sha256);
    const values = dequantise(type, bytes);
    expect(values.length).toBe(facts.values);
    expect(await sha256Hex(new Uint8Array(values.buffer))).toBe(facts.sha256_f32);
  });

  it('takes blocks from anywhere in a buffer, whole ones only', () => {
    const bytes = blocks(type);
    const shifted = new Uint8Array(bytes.length + 1);
    shifted.set(bytes, 1);
    expect(dequantise(type, shifted.subarray(1))).toEqual(dequantise(type, bytes));
    expect(() => dequantise(type, bytes.subarray(1))).toThrow(RangeError);
    expect(dequantise(type, new Uint8Array(0))).toHaveLength(0);
  });

  if (format.halves.length === 0) return;
  it('finds each scale that is infinite or undefined', () => {
    const bytes = blocks(type);
    expect(firstBadBlock(format, bytes)).toBe(-1);
    for (const half of format.halves) {
      for (const bits of [0x7c00, 0xfc00, 0x7e00]) {
        const broken = bytes.slice();
        new DataView(broken.buffer).setUint16(7 * format.bytes + half, bits, true);
        expect(firstBadBlock(format, broken)).toBe(7);
        expect([...dequantise(type, broken)].every(Number.isFinite)).toBe(false);
      }
    }
  });
});

it('takes singles as they are', () => {
  const bits = Uint32Array.of(0x80000000, 1, 0x7f7fffff, 0xff800000, 0x3f800001);
  const values = dequantise('F32', new Uint8Array(bits.buffer));
  expect(new Uint32Array(values.buffer)).toEqual(bits);
});

it('finds an undefined exponent of MXFP4', () => {
  const bytes = blocks('MXFP4');
  expect(firstBadBlock(GGML_FORMATS.MXFP4, bytes)).toBe(-1);
  bytes[3 * 17] = 255;
  expect(firstBadBlock(GGML_FORMATS.MXFP4, bytes)).toBe(3);
});
