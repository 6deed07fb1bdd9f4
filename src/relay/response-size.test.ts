import { toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GenerateResponseSchema } from '../contract/gen/sglang_scheduler_pb.ts';
import { messageBytes, outputBytes, type ToldPerPosition } from '../contract/response-size.ts';
import { chunkOf, completeOf } from './generate-messages.ts';
import { Job } from './job.ts';
import { normalised } from './testing/normalised.ts';

/** Values that take the most bytes on the wire. */
const LOGPROB = -3.4028234663852886e38;

/** A job with everything told of it, each value as large as it may be. */
function fullJob(told: ToldPerPosition, outputs: number, inputs: number, stream: boolean): Job {
  const { vocabSize, logprobs, top, ids, hidden } = told;
  const largest = vocabSize - 1;
  const job = new Job(
    1n,
    normalised({
      requestId: 'x'.repeat(4096),
      inputIds: new Array(Math.max(1, inputs)).fill(largest),
      stream,
      streamInterval: Math.max(1, outputs),
      outputLogprobs: logprobs,
      topLogprobs: top,
      logprobIds: new Array(ids).fill(largest),
      logprobStart: inputs > 0 ? 0 : undefined,
      hiddenStates: hidden > 0,
    }),
  );
  const lists = {
    top: { ids: new Array(top).fill(largest), logprobs: new Float32Array(top).fill(LOGPROB) },
    byId: new Float32Array(ids).fill(LOGPROB),
  };
  job.appendPrompt(Array.from({ length: inputs }, () => ({ logprob: LOGPROB, ...lists })));
  const [sample] = job.samples;
  if (!sample) throw new Error('no sample');
  const state = new Float32Array(hidden).fill(1);
  const details = { logprob: LOGPROB, ...lists, hidden: state };
  job.append(sample, { ids: new Array(outputs).fill(largest), details: new Array(outputs).fill(details) });
  if (outputs === 0) sample.promptState = state;
  job.finishSample(sample, { reason: 'stop', matchedStopString: '한'.repeat(4096) });
  return job;
}

test('no message takes more than its bound, whole or packed, and large ones not much less', () => {
  let tight = 0;
  fc.assert(
    fc.property(
      fc.record({
        vocabSize: fc.constantFrom(100, 512, 16_384, 50_000, 152_064),
        // Most are large: the small ones show nothing but that they are.
        logprobs: fc.constantFrom(true, true, true, false),
        top: fc.oneof(fc.constant(0), fc.nat(300), fc.integer({ min: 100, max: 300 })),
        ids: fc.oneof(fc.constant(0), fc.nat(300), fc.integer({ min: 100, max: 300 })),
        hidden: fc.oneof(fc.constant(0), fc.nat(2_000), fc.integer({ min: 1_000, max: 2_000 })),
      }),
      fc.oneof(fc.nat(40), fc.integer({ min: 25, max: 40 })),
      fc.oneof(fc.nat(40), fc.integer({ min: 25, max: 40 })),
      fc.boolean(),
      fc.boolean(),
      ({ logprobs, ...shape }, outputs, inputs, stream, packed) => {
        const told = { ...shape, logprobs, ...(logprobs ? {} : { top: 0, ids: 0 }) };
        const asked = logprobs ? inputs : 0;
        const job = fullJob(told, outputs, asked, stream);
        const form = { packed, lastLayer: 99 };
        const chunk = stream ? job.nextChunk() : undefined;
        const [sample] = job.samples;
        if (!sample) throw new Error('no sample');
        const message = chunk ? chunkOf(job, chunk, form) : completeOf(job, sample, form);
        const bytes = toBinary(GenerateResponseSchema, message).length;
        const bound = messageBytes(outputs, asked, told);
        expect(bytes).toBeLessThanOrEqual(bound);
        if (bytes > 200_000 && bytes > bound * 0.8) tight++;
        expect(outputBytes(told) * outputs).toBeLessThanOrEqual(bound);
      },
    ),
    { numRuns: 300 },
  );
  // Else the bound would refuse what fits.
  expect(tight).toBeGreaterThan(50);
});
