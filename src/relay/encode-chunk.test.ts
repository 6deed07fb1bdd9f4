import { toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GenerateResponseSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { ChunkEncoder } from './encode-chunk.ts';
import { FRAME_HEAD_BYTES, FrameBatch } from './frame-batch.ts';
import { chunkOf } from './generate-messages.ts';
import { Job } from './job.ts';
import { normalised } from './testing/normalised.ts';

/** Around every border between lengths of a varint. */
const number = (max: number) =>
  fc.oneof(fc.integer({ min: 0, max }), fc.constantFrom(0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, max));

test('the bytes are those of the encoder that goes by the schema', () => {
  const batch = new FrameBatch();
  fc.assert(
    fc.property(
      fc.record({
        requestId: fc.string({ unit: 'grapheme', maxLength: 200 }),
        prompt: fc.integer({ min: 1, max: 300 }),
      }),
      fc.array(number(2 ** 32 - 1), { minLength: 1, maxLength: 200 }),
      number(2 ** 31 - 1),
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 1, max: 50 }),
      ({ requestId, prompt }, ids, cachedTokens, n, streamInterval) => {
        const inputIds = new Array(prompt).fill(3);
        const job = new Job(1n, normalised({ requestId, inputIds, n, streamInterval, stream: true }));
        const sample = job.samples[n - 1]!;
        sample.cachedTokens = cachedTokens;
        job.append(sample, { ids });
        job.abort();
        const encoder = new ChunkEncoder(job);
        const expected: Uint8Array[] = [];
        for (let chunk = job.nextChunk(); chunk; chunk = job.nextChunk()) {
          encoder.encode(chunk, batch);
          const message = toBinary(GenerateResponseSchema, chunkOf(job, chunk, { packed: true, lastLayer: 0 }));
          const head = Buffer.alloc(FRAME_HEAD_BYTES);
          head.writeUInt32BE(message.byteLength, 1);
          expected.push(head, message);
        }
        expect(batch.take().equals(Buffer.concat(expected))).toBe(true);
      },
    ),
  );
});

test('jobs that something more is told of are not for it', () => {
  const takes = (fields: Parameters<typeof normalised>[0]) => ChunkEncoder.takes(new Job(1n, normalised(fields)));
  expect(takes({})).toBe(true);
  for (const fields of [{ outputLogprobs: true }, { hiddenStates: true }, { logprobStart: 0 }]) {
    expect(takes(fields)).toBe(false);
  }
});

test('a batch grows to what it must hold, and begins anew', () => {
  const batch = new FrameBatch();
  const [small, large] = [new Uint8Array(3).fill(1), new Uint8Array(3_000_000).fill(2)];
  batch.add(small);
  batch.add(large);
  const both = batch.take();
  expect([both.byteLength, both[5], both[13], both.readUInt32BE(9)]).toEqual([3_000_013, 1, 2, 3_000_000]);
  expect(batch.bytes).toBe(0);
  batch.add(small);
  batch.clear();
  batch.add(large.subarray(0, 2));
  expect([...batch.take()]).toEqual([0, 0, 0, 0, 2, 2, 2]);
  // What was given away is the caller's.
  expect(both[13]).toBe(2);
});
