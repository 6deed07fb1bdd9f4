import { expect, test } from 'vitest';
import { AGEING_MS, MOST_OVERTAKEN } from '../contract/ageing.ts';
import { Job } from './job.ts';
import type { SchedulePolicyName } from './options.ts';
import { overtake, waitingOrder } from './waiting-order.ts';

const sampling = { seed: 1n } as Job['request']['sampling'];

/** Jobs numbered from 1 in the order they came, `gapMs` apart; the last came `gapMs` ago. */
function queueOf(priorities: readonly number[], gapMs = 0) {
  const now = performance.now();
  const jobs = priorities.map((priority, at) => {
    const job = new Job(BigInt(at + 1), { priority, n: 1, sampling, rank: undefined } as Job['request']);
    return Object.assign(job, { arrivedAt: now - (priorities.length - at) * gapMs });
  });
  return { jobs, order: (policy: SchedulePolicyName) => waitingOrder(jobs, policy, now).map(({ id }) => Number(id)) };
}

test('a policy without priorities leaves the queue as it is', () => {
  const { order } = queueOf([0, 5, 3]);
  expect([order('lpm'), order('fcfs')]).toEqual([
    [1, 2, 3],
    [1, 2, 3],
  ]);
});

test('the highest priority is first; equal ones keep their order', () => {
  expect(queueOf([0, 5, -3, 5, 1]).order('priority')).toEqual([2, 4, 5, 1, 3]);
});

test('waiting is worth priority: one step for each AGEING_MS', () => {
  expect(queueOf([0, 1], AGEING_MS * 0.9).order('priority')).toEqual([2, 1]);
  expect(queueOf([0, 1], AGEING_MS * 1.1).order('priority')).toEqual([1, 2]);
});

test('whoever was overtaken too often is next, behind those whose node was lost', () => {
  const { jobs, order } = queueOf([-(2 ** 31), 2 ** 31 - 1, 0, 1]);
  const late = { ...jobs[3]!, id: 9n } as Job;
  for (let times = 0; times < MOST_OVERTAKEN - 1; times++) overtake(jobs, late, 0);
  expect(order('priority')).toEqual([2, 4, 3, 1]);
  overtake(jobs.slice(0, 1), late, 0);
  expect(order('priority')).toEqual([1, 2, 4, 3]);
  jobs[2]!.interrupted = true;
  expect(order('priority')).toEqual([3, 1, 2, 4]);
});

test('only an earlier job that could have gone there is overtaken', () => {
  const { jobs } = queueOf([0, 0, 0]);
  Object.assign(jobs[0]!.request, { rank: 1 });
  overtake(jobs, jobs[1]!, 0);
  expect(jobs.map(({ overtaken }) => overtaken)).toEqual([0, 0, 0]);
  overtake(jobs, jobs[2]!, 1);
  expect(jobs.map(({ overtaken }) => overtaken)).toEqual([1, 1, 0]);
});
