import { Code } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import { overPool } from '../contract/normalise-request.ts';
import type { Job } from './job.ts';
import type { NodeLink } from './node-link.ts';

export interface RouterSettings {
  readonly startWaitMs: number;
  readonly rejoinWaitMs: number;
  readonly maxQueued: number;
  readonly queueMs: number;
  readonly firstTokenMs: number;
  readonly requestMs: number;
}

/**
 * Gives jobs to nodes: to the pinned rank, else to the least loaded. What finds no room waits in one bounded queue, in
 * order; what finds no node waits for one, but not for ever. Also keeps the clocks of a job, so that every one ends.
 */
export class Router {
  private readonly queue: Job[] = [];
  /** Of queued jobs that no node could take. */
  private readonly noNodeTimers = new Map<Job, NodeJS.Timeout>();
  private pumping = false;
  private again = false;
  private readonly links: () => Iterable<NodeLink>;
  private readonly settings: RouterSettings;

  constructor(links: () => Iterable<NodeLink>, settings: RouterSettings) {
    this.links = links;
    this.settings = settings;
  }

  get waiting(): readonly Job[] {
    return this.queue;
  }

  /** Takes a new job. Throws ContractError (RESOURCE_EXHAUSTED) where the queue is full. */
  submit(job: Job): void {
    this.queue.push(job);
    this.pump();
    if (job.outcome !== undefined) return;
    const waits = this.queue.includes(job);
    if (!waits || this.queue.length <= this.settings.maxQueued) this.keepTime(job);
    else {
      this.dequeue(job);
      throw new ContractError(Code.ResourceExhausted, `${this.settings.maxQueued} requests are waiting already.`);
    }
  }

  /** Takes a job back whose node can't go on with it: before all that wait, since its client has waited longest. */
  requeue(jobs: readonly Job[]): void {
    for (const job of jobs) job.settleWhole();
    this.queue.unshift(...jobs.filter((job) => job.outcome === undefined));
    this.pump();
  }

  /** Places what can be placed. Call when room or nodes came or went; calls from within are folded into one more. */
  pump(): void {
    this.again = true;
    if (this.pumping) return;
    this.pumping = true;
    try {
      while (this.again) {
        this.again = false;
        this.pass();
      }
    } finally {
      this.pumping = false;
    }
  }

  private pass(): void {
    const links = [...this.links()].filter((link) => link.serving);
    // Once the first unpinned job finds no room, later ones must not overtake it.
    let blocked = false;
    for (const job of [...this.queue]) {
      if (!this.queue.includes(job)) continue;
      if (job.outcome !== undefined) {
        this.dequeue(job);
        continue;
      }
      const { rank } = job.request;
      const candidates = links.filter((link) => rank === undefined || link.rank === rank);
      const willing = candidates.filter((link) => !job.refusedBy.has(link.facts.nodeId));
      if (willing.length === 0) {
        this.awaitNode(job, candidates.length > 0);
        continue;
      }
      this.clearNoNode(job);
      const able = willing.filter((link) => holds(link, job));
      if (able.length === 0) {
        this.dequeue(job);
        job.fail(overPool(job.request.inputIds.length, Math.max(...willing.map((link) => link.facts.poolTokens))));
        continue;
      }
      if (blocked && rank === undefined) continue;
      const link = leastLoaded(able.filter((one) => one.hasRoom(job.unfinished.length)));
      if (link) {
        this.dequeue(job);
        link.run(job);
      } else if (rank === undefined) blocked = true;
    }
  }

  /** Every job ends: each of its waits is bounded here. */
  private keepTime(job: Job): void {
    const { queueMs, firstTokenMs, requestMs } = this.settings;
    const late = (what: string) => new ContractError(Code.DeadlineExceeded, what);
    const timers = [
      setTimeout(() => {
        if (job.host === undefined && job.firstTokenAt === undefined)
          job.fail(late('The request waited too long for room.'));
      }, queueMs),
      setTimeout(() => {
        if (job.firstTokenAt === undefined) job.fail(late('The first token took too long.'));
      }, firstTokenMs),
      // An error would make the gateway generate it all again.
      setTimeout(() => job.abort(), requestMs),
    ];
    const before = job.onEnd;
    job.onEnd = (ended) => {
      for (const timer of timers) clearTimeout(timer);
      this.dequeue(ended);
      before?.(ended);
    };
  }

  private awaitNode(job: Job, refused: boolean): void {
    if (refused && job.lastRefusal) {
      this.dequeue(job);
      job.fail(job.lastRefusal);
      return;
    }
    if (this.noNodeTimers.has(job)) return;
    const { startWaitMs, rejoinWaitMs } = this.settings;
    const fail = () => {
      this.dequeue(job);
      job.fail(noNode(job));
    };
    const waitMs = job.interrupted ? rejoinWaitMs : startWaitMs;
    if (waitMs === 0) fail();
    else this.noNodeTimers.set(job, setTimeout(fail, waitMs));
  }

  private dequeue(job: Job): void {
    this.clearNoNode(job);
    const at = this.queue.indexOf(job);
    if (at >= 0) this.queue.splice(at, 1);
  }

  private clearNoNode(job: Job): void {
    clearTimeout(this.noNodeTimers.get(job));
    this.noNodeTimers.delete(job);
  }
}

function holds(link: NodeLink, job: Job): boolean {
  const { contextLength, poolTokens } = link.facts;
  return job.request.inputIds.length <= Math.min(contextLength, poolTokens);
}

function leastLoaded(links: readonly NodeLink[]): NodeLink | undefined {
  const load = (link: NodeLink) => link.runningSamples / link.facts.maxRunning;
  let best: NodeLink | undefined;
  for (const link of links) {
    if (!best || load(link) < load(best) || (load(link) === load(best) && link.rank < best.rank)) best = link;
  }
  return best;
}

function noNode(job: Job): ContractError {
  const { rank } = job.request;
  const which = rank === undefined ? 'No node' : `No node of data_parallel_rank ${rank}`;
  return new ContractError(
    Code.Unavailable,
    job.interrupted ? `The node that served this request was lost. ${which} took over.` : `${which} is serving.`,
  );
}
