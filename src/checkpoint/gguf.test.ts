import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ByteSource, bytesSource } from './byte-source.ts';
import { CheckpointError } from './checkpoint.ts';
import { readGguf } from './gguf.ts';
import { type GgufParts, type Written, type WrittenTensor, writeGguf, zeros } from './testing/write-gguf.ts';

const open = (parts: GgufParts | Uint8Array) =>
  readGguf(bytesSource('m.gguf', parts instanceof Uint8Array ? parts : writeGguf(parts)));

const u8 = (...bytes: number[]) => Uint8Array.from(bytes);
const u64 = (value: bigint) => new Uint8Array(BigUint64Array.of(value).buffer);

async function failure(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(CheckpointError);
  expect((error as Error).message).toMatch(/^m\.gguf: /);
  return (error as Error).message;
}

describe('metadata', () => {
  it("has a value for each of GGUF's types", async () => {
    const list = (type: number, count: bigint, bytes: Uint8Array): Written => ({
      type: 9,
      bytes: Uint8Array.from([...new Uint8Array(Uint32Array.of(type).buffer), ...u64(count), ...bytes]),
    });
    const metadata: [string, Written][] = [
      ['u8', { type: 0, bytes: u8(200) }],
      ['i8', { type: 1, bytes: u8(200) }],
      ['u16', { type: 2, bytes: u8(1, 2) }],
      ['i16', { type: 3, bytes: u8(0xfe, 0xff) }],
      ['u32', 4_000_000_000],
      ['i32', { type: 5, bytes: u8(0xff, 0xff, 0xff, 0xff) }],
      ['f32', 0.5],
      ['bool', true],
      ['text', '\ufeffé🦈'],
      ['u64', { type: 10, bytes: u64(1n << 40n) }],
      ['large', { type: 10, bytes: u64(1n << 63n) }],
      ['i64', { type: 11, bytes: u64(0xffffffffffffffffn) }],
      ['f64', { type: 12, bytes: new Uint8Array(Float64Array.of(0.1).buffer) }],
      ['texts', ['a', '', 'c']],
      ['floats', Float32Array.of(1, -2)],
      ['bools', list(7, 2n, u8(1, 0))],
      ['longs', list(10, 1n, u64(5n))],
    ];
    const gguf = await open({ metadata });
    expect(Object.fromEntries([...gguf.metadata.keys].map((key) => [key, gguf.metadata.get(key)]))).toEqual({
      ...{ u8: 200, i8: -56, u16: 513, i16: -2, u32: 4_000_000_000, i32: -1, f32: 0.5, bool: true, f64: 0.1 },
      ...{ text: '\ufeffé🦈', u64: 2 ** 40, large: 1n << 63n, i64: -1 },
      ...{ texts: ['a', '', 'c'], floats: Float32Array.of(1, -2), bools: [true, false], longs: BigUint64Array.of(5n) },
    });
    for (const wrong of [
      () => gguf.metadata.string('u8'),
      () => gguf.metadata.count('i8'),
      () => gguf.metadata.count('large'),
      () => gguf.metadata.boolean('text'),
      () => gguf.metadata.number('texts'),
      () => gguf.metadata.strings('bools'),
      () => gguf.metadata.numbers('longs'),
    ]) {
      expect(wrong).toThrow(/^m\.gguf: \w+ is .*, not /);
    }
    expect(gguf.metadata.count('absent')).toBeUndefined();
  });

  it('has lists of any texts, those too that two reads of the file share', async () => {
    const texts = fc.array(fc.string({ unit: 'grapheme', maxLength: 12 }), { minLength: 1, maxLength: 40 });
    const holds = async (list: readonly string[]) => {
      const { metadata } = await open({ metadata: [['texts', list]] });
      expect(metadata.get('texts')).toEqual(list);
    };
    await fc.assert(fc.asyncProperty(texts, holds), { numRuns: 50 });
    await holds(Array.from({ length: 30_000 }, (_, i) => `${'é🦈'.repeat(i % 3)}${i}`));
  });

  it.each([
    ['that ends inside of a character', [[0x61], [0xc3], [0xa9, 0x61]]],
    ['that begins inside of one', [[0x61], [0xa9, 0x61], [0x61]]],
    ['that is broken within', [[0x61], [0xff, 0x61], [0x61]]],
  ])('refuses a text in a list %s', async (_, texts) => {
    const bytes = texts.flatMap((text) => [...u64(BigInt(text.length)), ...text]);
    const list: Written = { type: 9, bytes: u8(8, 0, 0, 0, ...u64(3n), ...bytes) };
    expect(await failure(open({ metadata: [['texts', list]] }))).toMatch(/"texts" is not UTF-8/);
  });

  const key = (value: Written): GgufParts => ({ metadata: [['key', value]] });
  const head = (type: number, count: bigint): Written => ({ type: 9, bytes: u8(type, 0, 0, 0, ...u64(count)) });
  it.each<[string, GgufParts | Uint8Array, RegExp]>([
    ['an empty file', u8(), /header ends at byte 24, beyond the file/],
    ['another file', new Uint8Array(64), /not a GGUF file/],
    ['version 1', { version: 1 }, /version 1/],
    ['a big-endian file', { version: 0x03000000 }, /big-endian/],
    ['more tensors than fit', { tensorCount: 1n << 60n }, /1152921504606846976 tensors/],
    ['more pairs than fit', { pairCount: 1n << 63n }, /9223372036854775808 metadata pairs/],
    ['a pair too many', { ...key('text'), pairCount: 2n }, /metadata pair/],
    [
      'a pair twice',
      {
        metadata: [
          ['a', 1],
          ['a', 2],
        ],
      },
      /"a" is there twice/,
    ],
    ['a key without a name', { metadata: [['', 1]] }, /metadata pair 0 has 0/],
    ['a value of an unknown type', key({ type: 13, bytes: u8() }), /"key" has a value of type 13/],
    ['a list of an unknown type', key(head(77, 0n)), /"key" has values of type 77/],
    ['a list of lists', key(head(9, 0n)), /"key" is a list of lists/],
    ['an absurd list', key(head(4, 1n << 61n)), /"key" has 2305843009213693952 numbers/],
    ['an absurd list of texts', key(head(8, 1n << 50n)), /"key" has 1125899906842624 strings/],
    ['an absurd text', key({ type: 8, bytes: u64(1n << 62n) }), /"key" has 4611686018427387904 characters/],
    ['a text that is no UTF-8', key({ type: 8, bytes: u8(1, 0, 0, 0, 0, 0, 0, 0, 0xff) }), /"key" is not UTF-8/],
    ['a boolean that is neither', key({ type: 7, bytes: u8(2) }), /"key" has the byte 2/],
    ['an alignment of nothing', { metadata: [['general.alignment', 0]] }, /general\.alignment is 0/],
    ['a crooked alignment', { metadata: [['general.alignment', 12]] }, /general\.alignment is 12/],
    [
      'an alignment beyond the file',
      { metadata: [['general.alignment', 1 << 30]], tensors: [['t', zeros('F32', 1)]] },
      /"t".*cut off/,
    ],
  ])('refuses %s', async (_, parts, reason) => {
    expect(await failure(open(parts))).toMatch(reason);
  });
});

describe('tensors', () => {
  const one = (tensor: Partial<WrittenTensor>): GgufParts => ({
    tensors: [['t', { ...zeros('F32', 4, 2), ...tensor }]],
  });

  it('have shapes outermost first, and give ranges of their bytes', async () => {
    const bytes = Uint8Array.from({ length: 68 }, (_, i) => i);
    const gguf = await open({
      alignment: 64,
      metadata: [['general.alignment', 64]],
      tensors: [
        ['first', zeros('F32', 3)],
        ['second', { type: 'Q8_0', sizes: [32, 2], bytes }],
        ['empty', zeros('F32', 4, 0)],
      ],
    });
    expect(gguf.tensors.get('second')).toMatchObject({ dtype: 'Q8_0', shape: [2, 32], byteLength: 68 });
    expect(gguf.tensors.get('second')!.offset % 64).toBe(0);
    expect(await gguf.read(gguf.tensors.get('second')!)).toEqual(bytes);
    expect([...(await gguf.read(gguf.tensors.get('second')!, 33, 2))]).toEqual([33, 34]);
    expect(await gguf.read(gguf.tensors.get('empty')!)).toHaveLength(0);
    await expect(gguf.read(gguf.tensors.get('second')!, 60, 9)).rejects.toThrow(RangeError);
  });

  it.each<[string, GgufParts, RegExp]>([
    ['no dimension', one({ sizes: [] }), /"t": it has 0 dimensions/],
    ['five dimensions', one({ sizes: [1, 1, 1, 1, 1] }), /"t": it has 5 dimensions/],
    ['an unknown type', one({ type: 16 }), /"t": GGML type IQ2_XXS is not read; .*IQ4_XS/],
    ['a type that GGML has not', one({ type: 99 }), /"t": GGML type number 99 is not read/],
    ['rows cut inside a block', one({ type: 'Q4_0', sizes: [48, 2] }), /"t": rows of 48 values .* Q4_0 blocks of 32/],
    ['an absurd size', one({ sizes: [1n << 62n, 4] }), /"t": shape \[4, 4611686018427387904\] is absurd/],
    ['sizes that overflow', one({ sizes: [1n << 32n, 1n << 32n] }), /"t": shape .* is absurd/],
    ['an absurd size of nothing', one({ sizes: [0, 1n << 63n] }), /"t": shape .* is absurd/],
    ['a crooked offset', one({ offset: 4 }), /"t": its offset 4 is no multiple of 32/],
    ['an offset beyond the file', one({ offset: 2 ** 40 }), /"t": it ends at byte \d+ .* cut off/],
    ['more bytes than there are', one({ sizes: [4, 3000] }), /"t": it ends at byte \d+ .* cut off/],
    [
      'a name twice',
      {
        tensors: [
          ['t', zeros('F32', 1)],
          ['t', zeros('F32', 1)],
        ],
      },
      /"t": it is there twice/,
    ],
    [
      'shared bytes',
      {
        tensors: [
          ['t', zeros('F32', 1)],
          ['u', { ...zeros('F32', 1), offset: 0 }],
        ],
      },
      /t and u overlap/,
    ],
  ])('are refused with %s', async (_, parts, reason) => {
    expect(await failure(open(parts))).toMatch(reason);
  });

  it('with an infinite or undefined scale are refused when it is read, naming the block', async () => {
    const bytes = new Uint8Array(4 * 34);
    bytes[2 * 34 + 1] = 0x7e;
    const gguf = await open({
      tensors: [
        ['t', { type: 'Q8_0', sizes: [64, 2], bytes }],
        ['e', { type: 'MXFP4', sizes: [32, 1], bytes: new Uint8Array(17).fill(255) }],
      ],
    });
    const t = gguf.tensors.get('t')!;
    expect(await failure(gguf.read(t))).toMatch(/"t": the scale of block 2 is not a finite number/);
    expect(await failure(gguf.read(t, 34, 70))).toMatch(/"t": the scale of block 2/);
    expect(await failure(gguf.read(t, 40, 70))).toMatch(/"t": the scale of block 2/);
    expect(await gguf.read(t, 0, 68)).toHaveLength(68);
    expect(await gguf.read(t, 3 * 34)).toHaveLength(34);
    expect(await failure(gguf.read(gguf.tensors.get('e')!))).toMatch(/"e": the scale of block 0/);
  });
});

it('reads a long header in pieces, and nothing of the tensors', async () => {
  const texts = Array.from({ length: 20_000 }, (_, i) => `token number ${i} ${'x'.repeat(i % 50)}`);
  const bytes = writeGguf({
    metadata: [
      ['texts', texts],
      ['long', 'y'.repeat(300_000)],
      ['end', 1],
    ],
    tensors: [['t', zeros('F32', 1024, 256)]],
  });
  const memory = bytesSource('m.gguf', bytes);
  const reads: number[] = [];
  const source: ByteSource = {
    ...memory,
    read(offset, length) {
      reads.push(length);
      return memory.read(offset, length);
    },
  };
  const gguf = await readGguf(source);
  expect(gguf.metadata.strings('texts')).toEqual(texts);
  expect(gguf.metadata.string('long')).toHaveLength(300_000);
  expect(gguf.metadata.count('end')).toBe(1);
  expect(reads.length).toBeGreaterThan(3);
  expect(Math.max(...reads)).toBeLessThanOrEqual(300_000);
  // What straddles two chunks is read again, and the last chunk may reach into the data.
  const header = gguf.tensors.get('t')!.offset;
  expect(reads.reduce((sum, length) => sum + length, 0)).toBeLessThan(header + (1 << 18) + 310_000);
});
