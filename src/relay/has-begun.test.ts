import { expect, test } from 'vitest';
import { hasBegun } from './has-begun.ts';
import { Job } from './job.ts';
import { normalised } from './testing/normalised.ts';

const told = { logprob: -1, top: undefined, byId: undefined };

test('a job has begun with a token, an end of one of its samples, or all of its prompt’s logprobs', () => {
  const job = () => new Job(1n, normalised({ n: 2 }));
  expect(hasBegun(job())).toBe(false);
  const one = job();
  one.append(one.samples[1]!, { ids: [7] });
  const two = job();
  two.finishSample(two.samples[0]!, { reason: 'length' });
  expect([one, two].map(hasBegun)).toEqual([true, true]);

  const scored = new Job(1n, normalised({ inputIds: [5, 6], logprobStart: 0 }));
  scored.appendPrompt([told]);
  // Another node tells all of them anew.
  expect(hasBegun(scored)).toBe(false);
  scored.appendPrompt([told]);
  expect(hasBegun(scored)).toBe(true);
  // There are none to tell.
  expect(hasBegun(new Job(1n, normalised({ inputIds: [5, 6], logprobStart: 2 })))).toBe(false);
});
