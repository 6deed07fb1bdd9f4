import { create, type DescMessage, fromBinary, type Message, toBinary } from '@bufbuild/protobuf';
import { reflect } from '@bufbuild/protobuf/reflect';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { Code } from '@connectrpc/connect';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ContractError } from './contract-error.ts';
import { ReportRequestSchema } from './gen/node_relay_pb.ts';
import { GenerateRequestSchema } from './gen/sglang_scheduler_pb.ts';
import { guardJson } from './json-guard.ts';
import { guardWire, type WireLimits } from './wire-guard.ts';

const NO_LIMITS: WireLimits = { maxScalars: 1e9, maxFields: 1e9, maxDepth: 90 };
const IDS = 'sglang.grpc.scheduler.TokenizedInput.input_ids';

function refusalOf(schema: DescMessage, bytes: Uint8Array, limits: WireLimits): ContractError {
  try {
    guardWire(schema, bytes, limits);
  } catch (error) {
    if (error instanceof ContractError) return error;
    throw error;
  }
  throw new Error('taken');
}

/** Elements of all repeated fields and maps, as the decoder has them. */
function listsOf(schema: DescMessage, message: Message, into = new Map<string, number>()): Map<string, number> {
  const reflected = reflect(schema, message);
  for (const field of schema.fields) {
    const name = `${schema.typeName}.${field.name}`;
    if (field.fieldKind === 'list' || field.fieldKind === 'map') {
      const value = reflected.get(field) as { size: number } & Iterable<unknown>;
      if (value.size > 0) into.set(name, (into.get(name) ?? 0) + value.size);
      if (field.fieldKind === 'list' && field.listKind === 'message') {
        for (const item of value) listsOf(field.message, (item as { message: Message }).message, into);
      }
    } else if (field.message && reflected.isSet(field) && !field.message.typeName.startsWith('google.')) {
      listsOf(field.message, (reflected.get(field) as { message: Message }).message, into);
    }
  }
  return into;
}

const ids = fc.array(fc.integer({ min: 0, max: 2 ** 32 - 1 }));
const request = fc.record({
  requestId: fc.string(),
  tokenized: fc.record({ originalText: fc.string(), inputIds: ids }),
  samplingParams: fc.record({
    stop: fc.array(fc.string()),
    stopTokenIds: ids,
    // protobuf-es keeps maps in plain objects, which have no entry of that name.
    logitBias: fc.dictionary(
      fc.string().filter((key) => key !== '__proto__'),
      fc.float({ noNaN: true }),
    ),
    maxNewTokens: fc.integer(),
  }),
  inputEmbeds: fc.array(fc.float()),
  tokenIdsLogprob: ids,
});
const report = fc.record({
  seq: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  events: fc.array(
    fc.record({
      jobId: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      event: fc.record({
        case: fc.constant('tokens' as const),
        value: fc.record({
          tokenIds: ids,
          logprobs: fc.array(fc.float()),
          topLogprobs: fc.array(fc.record({ tokenIds: ids, logprobs: fc.array(fc.float()) }), { maxLength: 3 }),
        }),
      }),
    }),
    { maxLength: 5 },
  ),
});

test('counts what the decoder decodes', () => {
  fc.assert(
    fc.property(request, (init) => {
      const bytes = toBinary(GenerateRequestSchema, create(GenerateRequestSchema, init as object));
      const { lists } = guardWire(GenerateRequestSchema, bytes, NO_LIMITS);
      const decoded = listsOf(GenerateRequestSchema, fromBinary(GenerateRequestSchema, bytes));
      expect(new Map([...lists].filter(([, count]) => count > 0))).toEqual(decoded);
    }),
  );
  fc.assert(
    fc.property(report, (init) => {
      const bytes = toBinary(ReportRequestSchema, create(ReportRequestSchema, init as object));
      const { lists } = guardWire(ReportRequestSchema, bytes, NO_LIMITS);
      const decoded = listsOf(ReportRequestSchema, fromBinary(ReportRequestSchema, bytes));
      expect(new Map([...lists].filter(([, count]) => count > 0))).toEqual(decoded);
    }),
  );
});

test('packed, unpacked and split lists count alike', () => {
  const packed = new BinaryWriter()
    .tag(2, WireType.LengthDelimited)
    .bytes(Uint8Array.of(5, 0x80, 1, 7))
    .finish();
  const single = new BinaryWriter().tag(2, WireType.Varint).uint32(300).finish();
  const writer = new BinaryWriter();
  for (const part of [packed, single, packed]) writer.tag(2, WireType.LengthDelimited).bytes(part);
  const bytes = writer.finish();
  expect(guardWire(GenerateRequestSchema, bytes, NO_LIMITS).lists.get(IDS)).toBe(7);
  expect(fromBinary(GenerateRequestSchema, bytes).tokenized?.inputIds).toHaveLength(7);
  const limits = (cap: number) => ({ ...NO_LIMITS, lists: new Map([[IDS, cap]]) });
  guardWire(GenerateRequestSchema, bytes, limits(7));
  expect(refusalOf(GenerateRequestSchema, bytes, limits(6))).toMatchObject({
    code: Code.InvalidArgument,
    message: 'input_ids holds more than 6 elements.',
  });
});

/** Bytes that look like a message in places, so that a walk gets somewhere. */
const arbitraryBytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc
    .array(fc.oneof(fc.constantFrom(0x0a, 0x12, 0x22, 0x10, 2, 5, 0x80, 0xb2, 0xba, 1, 0x0b, 0x0c), fc.nat(255)), {
      maxLength: 60,
    })
    .map((bytes) => Uint8Array.from(bytes)),
  fc.tuple(request, fc.nat(), fc.nat(255)).map(([init, at, value]) => {
    const bytes = toBinary(GenerateRequestSchema, create(GenerateRequestSchema, init as object));
    if (bytes.length > 0) bytes[at % bytes.length] = value;
    return bytes;
  }),
);

test('on arbitrary bytes: a ContractError, or the counts of what the decoder then decodes', () => {
  let agreed = 0;
  fc.assert(
    fc.property(arbitraryBytes, (bytes) => {
      let lists: Map<string, number>;
      try {
        lists = guardWire(GenerateRequestSchema, bytes, NO_LIMITS).lists;
      } catch (error) {
        if (!(error instanceof ContractError)) throw error;
        expect(error.code).toBe(Code.InvalidArgument);
        return;
      }
      let message: Message;
      try {
        message = fromBinary(GenerateRequestSchema, bytes);
      } catch {
        // Not UTF-8, or no Struct: the guard doesn't look at values.
        return;
      }
      agreed++;
      const decoded = listsOf(GenerateRequestSchema, message);
      // A map counts every entry, also where keys repeat.
      for (const [name, count] of decoded) expect(lists.get(name) ?? 0).toBeGreaterThanOrEqual(count);
    }),
    { numRuns: 3_000 },
  );
  expect(agreed).toBeGreaterThan(100);
});

test('numbers, fields and depth are bounded over the whole message', () => {
  const many = toBinary(
    GenerateRequestSchema,
    create(GenerateRequestSchema, { tokenIdsLogprob: [1, 2, 3], inputEmbeds: [1, 2, 3], requestId: 'x' }),
  );
  guardWire(GenerateRequestSchema, many, { ...NO_LIMITS, maxScalars: 6, maxFields: 1 });
  expect(refusalOf(GenerateRequestSchema, many, { ...NO_LIMITS, maxScalars: 5 }).code).toBe(Code.InvalidArgument);
  expect(refusalOf(GenerateRequestSchema, many, { ...NO_LIMITS, maxFields: 0 }).code).toBe(Code.InvalidArgument);
  const deep = create(GenerateRequestSchema, {
    samplingParams: { customParams: { a: { b: { c: { d: { e: 1 } } } } } } as object,
  });
  const bytes = toBinary(GenerateRequestSchema, deep);
  guardWire(GenerateRequestSchema, bytes, NO_LIMITS);
  expect(refusalOf(GenerateRequestSchema, bytes, { ...NO_LIMITS, maxDepth: 8 }).message).toContain(
    'nested over 8 deep',
  );
});

test('JSON: counts values outside strings, and depth', () => {
  const text = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const limits = { maxElements: 1e9, maxDepth: 3 };
  expect(guardJson(text('a,b:[{"\\"'), limits)).toBe(1);
  expect(guardJson(text([1, 2, 3]), limits)).toBe(4);
  expect(() => guardJson(text([[[[1]]]]), limits)).toThrow('nested over 3 deep');
  expect(() => guardJson(text([1, 2, 3]), { maxElements: 3, maxDepth: 3 })).toThrow('more than 3 elements');
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      let values = 0;
      JSON.stringify(value, (_key, one) => {
        values++;
        return one;
      });
      expect(guardJson(text(value), { maxElements: 1e9, maxDepth: 1e9 })).toBeGreaterThanOrEqual(values);
    }),
  );
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(guardJson(bytes, { maxElements: 1e9, maxDepth: 1e9 })).toBeGreaterThan(0);
    }),
  );
});
