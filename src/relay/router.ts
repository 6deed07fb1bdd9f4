import { Code } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import { overContext, overPool } from '../contract/normalise-request.ts';
import { chooseNode } from './choose-node.ts';
import { fitsAt, roomAt } from './generate-command.ts';
import { hasBegun } from './has-begun.ts';
import type { Job } from './job.ts';
import type { NodeLink } from './node-link.ts';
import { viewOf } from './node-view.ts';
import type { SchedulePolicyName } from './options.ts';
import { QueueClocks } from './queue-clocks.ts';
import { overtake, waitingOrder } from './waiting-order.ts';

/**
 * `held`: what hasn't begun is given to no node. `loading`: nodes are on their way, and no request gives up for want of one. Neither
 * is for long: stays in the queue are bounded all the same.
 */
export type RouterPhase = 'open' | 'held' | 'loading';

export interface RouterSettings {
  readonly startWaitMs: number;
  readonly rejoinWaitMs: number;
  readonly queueMs: number;
  readonly firstTokenMs: number;
  readonly requestMs: number;
  readonly schedulePolicy: SchedulePolicyName;
}

/**
 * Gives jobs to nodes: to the pinned rank, else by load, cached prefix and measured speed (chooseNode). What finds no room waits in one bounded queue, in
 * the policy's order; what finds no node waits for one, but not for ever. Also keeps the clocks of a job, so that every
 * one ends.
 */
export class Router {
  private readonly queue: Job[] = [];
  private readonly clocks: QueueClocks;
  private pumping = false;
  private again = false;
  private readonly links: () => Iterable<NodeLink>;
  private readonly settings: RouterSettings;
  private readonly maxQueued: () => number;
  private phaseNow: RouterPhase = 'open';

  /** `maxQueued` may change: requests that wait at the relay. */
  constructor(links: () => Iterable<NodeLink>, settings: RouterSettings, maxQueued: () => number) {
    this.maxQueued = maxQueued;
    this.links = links;
    this.settings = settings;
    this.clocks = new QueueClocks(
      settings.queueMs,
      (job) => this.waitedTooLong(job),
      (job) => {
        this.dequeue(job);
        job.fail(noNode(job, this.links()));
      },
    );
  }

  get waiting(): readonly Job[] {
    return this.queue;
  }

  get phase(): RouterPhase {
    return this.phaseNow;
  }

  set phase(phase: RouterPhase) {
    this.phaseNow = phase;
    this.pump();
  }

  /** Takes a new job. Throws ContractError (RESOURCE_EXHAUSTED) where the queue is full. */
  submit(job: Job): void {
    this.queue.push(job);
    this.clocks.enter(job);
    this.pump();
    if (job.outcome !== undefined) return;
    const waits = this.queue.includes(job);
    const most = this.maxQueued();
    if (!waits || this.queue.length <= most) this.keepTime(job);
    else {
      this.dequeue(job);
      throw new ContractError(Code.ResourceExhausted, `${most} requests are waiting already.`);
    }
  }

  /** Takes a job back whose node can't go on with it: before all that wait, since its client has waited longest. */
  requeue(jobs: readonly Job[]): void {
    for (const job of jobs) job.settleWhole();
    const open = jobs.filter((job) => job.outcome === undefined);
    this.queue.unshift(...open);
    for (const job of open) this.clocks.enter(job);
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
    if (this.queue.length === 0) return;
    const links = [...this.links()].filter((link) => link.serving);
    // Once the first unpinned job finds no room, later ones must not overtake it.
    let blocked = false;
    for (const job of waitingOrder(this.queue, this.settings.schedulePolicy, performance.now())) {
      if (!this.queue.includes(job)) continue;
      if (job.outcome !== undefined) {
        this.dequeue(job);
        continue;
      }
      if (this.phaseNow === 'held' && !hasBegun(job)) {
        this.clocks.hasNode(job);
        continue;
      }
      const { rank } = job.request;
      const candidates = links.filter((link) => rank === undefined || link.rank === rank);
      const willing = candidates.filter((link) => !job.refusedAt(link) && link.adapters.holds(job.request.loraId));
      if (willing.length === 0) {
        this.awaitNode(job, candidates.length > 0);
        continue;
      }
      this.clocks.hasNode(job);
      const able = this.ableFor(job, willing);
      if (able.length === 0) continue;
      if (blocked && rank === undefined) continue;
      const link = chosen(job, able);
      if (link) {
        this.dequeue(job);
        overtake(this.queue, job, link.rank);
        link.run(job);
      } else if (rank === undefined) blocked = true;
    }
  }

  /** Nodes whose context and pool hold the job. Where there is none it ends, as far as it has come. */
  private ableFor(job: Job, willing: readonly NodeLink[]): readonly NodeLink[] {
    const able = () => willing.filter((link) => fitsAt(job, link.facts));
    const found = able();
    if (found.length > 0) return found;
    // Another node made more than these hold: that is its length here. Samples that came less far may go on.
    job.settleAt(Math.max(...willing.map((link) => roomAt(job, link.facts))));
    const rest = job.outcome === undefined ? able() : [];
    if (rest.length === 0) {
      this.dequeue(job);
      job.fail(tooLong(job, willing));
    }
    return rest;
  }

  /** Every job ends: its waits for a place are bounded by the queue's clocks, and all else here. */
  private keepTime(job: Job): void {
    const { firstTokenMs, requestMs } = this.settings;
    const timers = [
      setTimeout(() => {
        const begun = job.firstTokenAt !== undefined || job.samples.some(({ vector }) => vector);
        if (!begun) job.fail(late('The first token, or vector, took too long.'));
      }, firstTokenMs),
      // An error would make the gateway generate it all again; of a vector there is no part.
      setTimeout(
        () => (job.request.embedInputs ? job.fail(late('The request took too long.')) : job.abort()),
        requestMs,
      ),
    ];
    const before = job.onEnd;
    job.onEnd = (ended) => {
      for (const timer of timers) clearTimeout(timer);
      this.dequeue(ended);
      before?.(ended);
    };
  }

  /** There are nodes, and none had room. */
  private waitedTooLong(job: Job): void {
    this.dequeue(job);
    if (job.firstTokenAt === undefined) job.fail(late('The request waited too long for room.'));
    // After a token an error would make the gateway generate it all again.
    else job.abort();
  }

  private awaitNode(job: Job, refused: boolean): void {
    // One that can't go on at all, such as with a lost device, is as good as lost.
    const lost = job.interrupted && job.lastRefusal?.code === Code.Unavailable;
    if (refused && job.lastRefusal && !lost) {
      this.dequeue(job);
      job.fail(job.lastRefusal);
      return;
    }
    if (this.phaseNow === 'loading') {
      this.clocks.hasNode(job);
      return;
    }
    const { startWaitMs, rejoinWaitMs } = this.settings;
    this.clocks.hasNoNode(job, job.interrupted ? rejoinWaitMs : startWaitMs);
  }

  private dequeue(job: Job): void {
    this.clocks.leave(job);
    const at = this.queue.indexOf(job);
    if (at >= 0) this.queue.splice(at, 1);
  }
}

function late(what: string): ContractError {
  return new ContractError(Code.DeadlineExceeded, what);
}

/** A prompt that none of the nodes can hold; names what it doesn't fit. */
function tooLong(job: Job, links: readonly NodeLink[]): ContractError {
  const tokens = job.promptTokens;
  const pool = Math.max(...links.map((link) => link.facts.poolTokens));
  if (tokens > pool) return overPool(tokens, pool);
  const roomy = links.filter((link) => link.facts.poolTokens >= tokens);
  return overContext(tokens, Math.max(...roomy.map((link) => link.facts.contextLength)));
}

function chosen(job: Job, able: readonly NodeLink[]): NodeLink | undefined {
  const { request, unfinished } = job;
  const ask = { rank: request.rank, samples: unfinished.length, promptTokens: request.inputIds.length };
  const rank = chooseNode(
    ask,
    able.map((link) => viewOf(link, job)),
  );
  return able.find((link) => link.rank === rank);
}

function noNode(job: Job, links: Iterable<NodeLink>): ContractError {
  const { rank, loraId } = job.request;
  const which = rank === undefined ? 'No node' : `No node of data_parallel_rank ${rank}`;
  const serving = [...links].filter((link) => link.serving && (rank === undefined || link.rank === rank));
  if (serving.length > 0 && !serving.some((link) => link.adapters.holds(loraId))) {
    return new ContractError(Code.Unavailable, `${which} could load the adapter that lora_id names.`, 'lora_id');
  }
  return new ContractError(
    Code.Unavailable,
    job.interrupted ? `The node that served this request was lost. ${which} took over.` : `${which} is serving.`,
  );
}
