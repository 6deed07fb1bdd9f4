import type { Job } from './job.ts';

interface Clocks {
  readonly stay: NodeJS.Timeout;
  /** Runs while no node could take the job. */
  nodeless: { readonly timer: NodeJS.Timeout; readonly since: number } | undefined;
}

/**
 * The clocks of jobs that wait: each stay in the queue is bounded, and so is the time without any node. The latter adds
 * up over nodes that come and go, for `job.nodelessMs`.
 */
export class QueueClocks {
  private readonly clocks = new Map<Job, Clocks>();
  private readonly stayMs: number;
  private readonly onLate: (job: Job) => void;
  private readonly onNodeless: (job: Job) => void;

  constructor(stayMs: number, onLate: (job: Job) => void, onNodeless: (job: Job) => void) {
    this.stayMs = stayMs;
    this.onLate = onLate;
    this.onNodeless = onNodeless;
  }

  /** A job enters the queue. */
  enter(job: Job): void {
    this.leave(job);
    this.clocks.set(job, { stay: setTimeout(() => this.onLate(job), this.stayMs), nodeless: undefined });
  }

  /** A job leaves the queue; harmless when it isn't there. */
  leave(job: Job): void {
    this.hasNode(job);
    clearTimeout(this.clocks.get(job)?.stay);
    this.clocks.delete(job);
  }

  /** No node could take the job: it may stay so for `boundMs` in all. */
  hasNoNode(job: Job, boundMs: number): void {
    const clocks = this.clocks.get(job);
    if (!clocks || clocks.nodeless) return;
    const left = boundMs - job.nodelessMs;
    if (left <= 0) this.onNodeless(job);
    else clocks.nodeless = { timer: setTimeout(() => this.onNodeless(job), left), since: performance.now() };
  }

  /** A node is there that could take the job, with room or without. */
  hasNode(job: Job): void {
    const clocks = this.clocks.get(job);
    if (!clocks?.nodeless) return;
    clearTimeout(clocks.nodeless.timer);
    job.nodelessMs += performance.now() - clocks.nodeless.since;
    clocks.nodeless = undefined;
  }
}
