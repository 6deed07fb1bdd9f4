import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type NodeEvent, type NodeEventSchema, ReportRequestSchema } from '../contract/gen/node_relay_pb.ts';
import { decodePlainReport } from './decode-report.ts';

const uint32 = fc.oneof(fc.nat(300), fc.integer({ min: 0, max: 2 ** 32 - 1 }));
const uint64 = fc.oneof(
  fc.bigInt({ min: 0n, max: 300n }),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.constantFrom(2n ** 28n - 1n, 2n ** 28n, 2n ** 32n, 2n ** 53n, 2n ** 63n),
);
const plainEvent = fc.record({
  jobId: uint64,
  index: uint32,
  event: fc.record({
    case: fc.constant('tokens' as const),
    value: fc.record({ offset: uint32, tokenIds: fc.array(uint32, { maxLength: 40 }), cachedTokens: uint32 }),
  }),
});
const report = fc.record({
  sessionToken: fc.string({ maxLength: 40 }),
  relayEpoch: uint64,
  sessionEpoch: uint64,
  seq: uint64,
  lastCommandSeq: uint64,
  events: fc.array(plainEvent, { maxLength: 20 }),
});

type Init = MessageInitShape<typeof ReportRequestSchema>;
const encoded = (init: Init) => toBinary(ReportRequestSchema, create(ReportRequestSchema, init));

test('a report of tokens is what the decoder that goes by the schema makes of it', () => {
  fc.assert(
    fc.property(report, (init) => {
      const bytes = encoded(init);
      expect(decodePlainReport(bytes)).toEqual({ ...fromBinary(ReportRequestSchema, bytes) });
    }),
  );
});

test('whatever the bytes: the same message, or none', () => {
  let some = 0;
  fc.assert(
    fc.property(report, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 }), fc.nat(), (init, changes, cut) => {
      const whole = encoded(init);
      for (const [at, byte] of changes) if (whole.length > 0) whole[at % whole.length] = byte;
      const bytes = changes.length % 2 === 0 ? whole : whole.subarray(0, cut % (whole.length + 1));
      const decoded = decodePlainReport(bytes);
      if (decoded === undefined) return;
      some++;
      expect(decoded).toEqual({ ...fromBinary(ReportRequestSchema, bytes, { readUnknownFields: false }) });
    }),
    { numRuns: 2_000 },
  );
  expect(some).toBeGreaterThan(100);
});

const withEvent = (event: MessageInitShape<typeof NodeEventSchema>['event']): Init => ({
  events: [{ jobId: 1n, event: event as NodeEvent['event'] }],
});
test.each<[string, Uint8Array]>([
  ['a load', encoded({ load: {} })],
  ['an event without content', encoded({ events: [{ jobId: 1n }] })],
  ['an end', encoded(withEvent({ case: 'finished', value: { completionTokens: 1 } }))],
  ['logprobs', encoded(withEvent({ case: 'tokens', value: { tokenIds: [1], logprobs: [-1] } }))],
  ['an unknown field', Uint8Array.of(0x78, 1)],
  ['two contents of one event', Uint8Array.of(0x32, 8, 0x1a, 2, 0x08, 1, 0x1a, 2, 0x08, 2)],
  ['text that is not ASCII', encoded({ sessionToken: 'é' })],
  ['a number past 32 bits', Uint8Array.of(0x32, 8, 0x10, 0xff, 0xff, 0xff, 0xff, 0x1f, 0x1a, 0)],
  ['half a field', Uint8Array.of(0x10)],
])('%s is for the other decoder', (_, bytes) => {
  expect(decodePlainReport(bytes)).toBeUndefined();
});
