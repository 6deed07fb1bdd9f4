import { Code } from '@connectrpc/connect';
import type { Job } from './job.ts';
import type { LinkOwner } from './link-owner.ts';
import type { NodeLink } from './node-link.ts';
import { refusalOf } from './node-refusal.ts';
import type { RunningJob, RunningJobs } from './running-jobs.ts';

interface JobMovesParts {
  readonly link: NodeLink;
  readonly jobs: RunningJobs;
  readonly owner: LinkOwner;
  readonly tokenStallMs: number;
  /** Tells the node that a job has left it. */
  readonly abort: (job: Job) => void;
}

/** Which jobs leave a node while its session goes on: what it fails, what it makes no tokens of, what it is to hand over. */
export class JobMoves {
  private readonly parts: JobMovesParts;
  /** `performance.now()` of the last token, of whatever job. */
  private lastTokenAt = 0;
  /** `performance.now()` of the report before. */
  private heardAt = performance.now();
  /** The report before had the grace of a pause. */
  private paused = false;
  private leaving = false;

  constructor(parts: JobMovesParts) {
    this.parts = parts;
  }

  tokensCame(): void {
    this.lastTokenAt = performance.now();
  }

  /** From now on what runs here goes elsewhere, as far as others take it. */
  handOver(): void {
    this.leaving = true;
    this.move();
  }

  /** A sample failed at the node: the whole job leaves it, so that its samples stay together. */
  giveBack(job: Job, code: number, message: string): void {
    const { link, jobs, owner } = this.parts;
    const running = jobs.find(job.id);
    if (running) this.takeAway(running, true);
    job.refuse(link, refusalOf(code, message));
    owner.onJobFailed(link, job);
  }

  /** A report was taken in: takes from the node what it doesn't go on with, and what is not to end there. */
  move(): void {
    const { link, jobs, owner, tokenStallMs } = this.parts;
    const now = performance.now();
    // A pause, of this process too, says nothing of the node: what it made meanwhile may be in its next report.
    // Once: a node that reports seldom would never be found to stand still.
    const paused = !this.paused && now - this.heardAt > tokenStallMs / 2;
    this.paused = paused;
    this.heardAt = now;
    // A node that reports, but makes no tokens, would keep a job until its last deadline.
    const since = paused ? Number.NEGATIVE_INFINITY : now - tokenStallMs;
    const silent = this.lastTokenAt <= since;
    for (const running of jobs.all) {
      const { job } = running;
      if (running.stalled(since) || (silent && running.untouched(since) && owner.couldMove(link, job))) {
        this.giveBack(job, Code.Unavailable, 'The node stopped making tokens.');
      } else if (this.leaving && owner.couldMove(link, job)) {
        this.takeAway(running, running.begun(link.outbox.acknowledgedSeq));
        owner.onJobMoved(link, job);
      }
    }
  }

  private takeAway({ job }: RunningJob, begun: boolean): void {
    this.parts.jobs.remove(job);
    job.leaveHost(begun);
    this.parts.abort(job);
  }
}
