import type { Job } from './job.ts';

/** Whether something of a job's answer is made, so that what comes has to go with it. */
export function hasBegun({ samples, promptLogprobs }: Job): boolean {
  const told = samples.some(
    ({ ids, vector, finish }) => ids.length > 0 || vector !== undefined || finish !== undefined,
  );
  // Where none are asked for, or not all came, another node tells them all.
  return told || (promptLogprobs?.whole === true && promptLogprobs.start < promptLogprobs.end);
}
