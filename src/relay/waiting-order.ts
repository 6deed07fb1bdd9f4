import { AGEING_MS, MOST_OVERTAKEN } from '../contract/ageing.ts';
import type { Job } from './job.ts';
import type { SchedulePolicyName } from './options.ts';

/**
 * The queue in the order in which its jobs get nodes. By priority: those whose node was lost, since their clients have
 * output already; those overtaken too often; then the highest priority, which grows with waiting. Otherwise as it is:
 * prefixes are the nodes' business.
 */
export function waitingOrder(queue: readonly Job[], policy: SchedulePolicyName, now: number): readonly Job[] {
  if (policy !== 'priority') return [...queue];
  const worth = (job: Job): number => {
    if (job.interrupted) return Number.POSITIVE_INFINITY;
    // More than any priority and age.
    if (job.overtaken >= MOST_OVERTAKEN) return Number.MAX_VALUE;
    return job.request.priority + (now - job.arrivedAt) / AGEING_MS;
  };
  const ranked = queue.map((job) => ({ job, worth: worth(job) }));
  // Infinity − Infinity is no number: equal worths keep their order.
  ranked.sort((a, b) => (a.worth === b.worth ? 0 : b.worth - a.worth));
  return ranked.map(({ job }) => job);
}

/** Notes that a node of rank `rank` got a job, before those that came earlier and would have gone there too. */
export function overtake(queue: readonly Job[], by: Job, rank: number): void {
  for (const job of queue) {
    const { rank: pinned } = job.request;
    if (job.id < by.id && (pinned === undefined || pinned === rank)) job.overtaken++;
  }
}
