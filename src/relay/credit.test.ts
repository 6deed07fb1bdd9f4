import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CREDIT_TOKENS, creditWindow } from './credit.ts';
import { Job } from './job.ts';
import { normalised } from './testing/normalised.ts';

test.each([
  // Plain ids, twenty best logprobs, a whole vocabulary's.
  [3, 1, 1, CREDIT_TOKENS],
  [200, 1, 1, CREDIT_TOKENS],
  [1_200_000, 1, 1, 27],
  [1_200_000, 128, 1, 2],
  // Tokens that wait for their chunk come on top.
  [3, 1, 100, CREDIT_TOKENS + 99],
])('%s bytes a token, n = %s, interval %s: %s tokens ahead', (bytesPerToken, n, streamInterval, tokens) => {
  expect(creditWindow(normalised({ bytesPerToken, n, streamInterval })).tokens).toBe(tokens);
});

test('a client that reads is never left waiting for a credit, whatever interval and sizes', () => {
  fc.assert(
    fc.property(
      fc.record({
        bytesPerToken: fc.constantFrom(1, 1_000, 1_000_000, 100_000_000),
        n: fc.integer({ min: 1, max: 3 }),
        streamInterval: fc.integer({ min: 1, max: 300 }),
      }),
      fc.boolean(),
      fc.integer({ min: 1, max: 50 }),
      (fields, stream, step) => {
        const job = new Job(1n, normalised({ ...fields, stream }));
        const [sample] = job.samples;
        if (!sample) throw new Error('no sample');
        const most = fields.streamInterval * 5 + 200;
        // A node that makes all it may, and a client that then reads all there is.
        while (sample.ids.length < most) {
          const room = Math.min(step, sample.credit - sample.ids.length);
          expect(room).toBeGreaterThan(0);
          job.append(sample, { ids: new Array(room).fill(5) });
          if (sample.ids.length < sample.credit) continue;
          for (let chunk = job.nextChunk(); chunk; chunk = job.nextChunk()) job.wrote(chunk);
        }
        expect(sample.credit - sample.sent).toBeLessThanOrEqual(creditWindow(job.request).tokens);
      },
    ),
  );
});
