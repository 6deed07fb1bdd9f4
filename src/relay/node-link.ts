import { randomBytes } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { ContractError } from '../contract/contract-error.ts';
import {
  type Build,
  type NodeCommand,
  NodeCommandSchema,
  type NodeEvent,
  type NodeLoad,
  type ReportRequest,
} from '../contract/gen/node_relay_pb.ts';
import { isStatusCode } from '../contract/status-table.ts';
import { checkFinished, checkLoad, checkTokens } from './check-report.ts';
import { CommandOutbox } from './command-outbox.ts';
import { generateCommand, newTokensAt } from './generate-command.ts';
import type { Job, JobHost, Sample } from './job.ts';
import { Lie } from './lie.ts';
import type { NodeFacts } from './node-facts.ts';
import { Signal } from './signal.ts';

/** Commands that wait for a node's acknowledgement; a node that lets more pile up is put out. */
const MAX_UNACKNOWLEDGED = 20_000;

/** Jobs that ended at a node, whose late events it may still tell. */
const REMEMBERED_JOBS = 10_000;

export interface LinkSettings {
  readonly relayEpoch: bigint;
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  /** How long a job that began may make no token, while it has credit, before it is given to another node. */
  readonly tokenStallMs: number;
  readonly vocabSize: number;
  readonly build: Build;
}

/** A job at a node. */
interface Running {
  readonly job: Job;
  /** What the node was told. */
  readonly maxNewTokens: number;
  /** `performance.now()` of the last token or credit; undefined before the first token here. */
  progressAt: number | undefined;
}

/** What a link tells the fleet. */
export interface LinkOwner {
  /** The session is over; `jobs` ran there, in the order they came. */
  onLinkEnd(link: NodeLink, jobs: readonly Job[]): void;
  /** Room came free, or the stream came or went. */
  onLinkChange(link: NodeLink): void;
  /** The node can't go on with a job, which has left it. */
  onJobFailed(link: NodeLink, job: Job): void;
  /** Tokens were taken in. */
  onTokens(count: number): void;
}

/**
 * One session with one node. It outlives the connections it runs over: commands are numbered and kept until the node
 * acknowledges them, reports are numbered and taken in once, and only silence longer than the lease ends it.
 */
export class NodeLink implements JobHost {
  readonly token = randomBytes(24).toString('base64url');
  readonly facts: NodeFacts;
  readonly rank: number;
  load: NodeLoad | undefined;
  /** Finishes what it has and takes nothing new. */
  draining = false;
  /** Why the session is over. */
  ended: ConnectError | undefined;
  /** In the order they came. */
  private readonly jobs = new Map<bigint, Running>();
  private readonly recentJobs = new Set<bigint>();
  private readonly outbox = new CommandOutbox();
  private lastReportSeq = 0n;
  /** Of the newest Attach. */
  private epoch = 0n;
  private connected = false;
  private readonly woken = new Signal();
  private leaseTimer: NodeJS.Timeout | undefined;
  private streamTimer: NodeJS.Timeout | undefined;
  private readonly settings: LinkSettings;
  private readonly owner: LinkOwner;

  constructor(facts: NodeFacts, rank: number, settings: LinkSettings, owner: LinkOwner) {
    this.facts = facts;
    this.rank = rank;
    this.settings = settings;
    this.owner = owner;
  }

  /** Whether new jobs may go there: its stream is open and it isn't leaving. */
  get serving(): boolean {
    return this.connected && !this.draining && this.ended === undefined;
  }

  get sessionEpoch(): bigint {
    return this.epoch;
  }

  get lastCommandSeq(): bigint {
    return this.outbox.lastSeq;
  }

  get runningJobs(): number {
    return this.jobs.size;
  }

  /** Sequences that the node has been given and has not ended. */
  get runningSamples(): number {
    let samples = 0;
    for (const { job } of this.jobs.values()) samples += job.unfinished.length;
    return samples;
  }

  /** Whether the node has room for more sequences; an idle one takes any number and runs them in turn. */
  hasRoom(samples: number): boolean {
    const running = this.runningSamples;
    return running === 0 || running + samples <= this.facts.maxRunning;
  }

  run(job: Job): void {
    const maxNewTokens = newTokensAt(job, this.facts);
    this.jobs.set(job.id, { job, maxNewTokens, progressAt: undefined });
    job.host = this;
    this.send({ case: 'generate', value: generateCommand(job, maxNewTokens) });
  }

  grant(job: Job, sample: Sample): void {
    const entry = this.jobs.get(job.id);
    if (entry?.progressAt !== undefined) entry.progressAt = performance.now();
    this.send({ case: 'grant', value: { jobId: job.id, index: sample.index, credit: sample.credit } });
  }

  release(job: Job): void {
    if (!this.forget(job)) return;
    if (job.samples.some(({ finish }) => finish === undefined || finish.reason === 'abort')) {
      this.send({ case: 'abort', value: { jobId: job.id } });
    }
    this.owner.onLinkChange(this);
  }

  drain(reason: string): void {
    this.draining = true;
    this.send({ case: 'drain', value: { reason } });
  }

  /**
   * The stream of one Attach: welcome, then whatever the node has not seen, then commands as they come, and pings.
   * Ends when a newer Attach fences it; throws ConnectError when the session is over.
   */
  async *attach(epoch: bigint, lastSeen: bigint | undefined, signal: AbortSignal): AsyncGenerator<NodeCommand> {
    this.epoch = epoch;
    this.woken.notify();
    if (lastSeen !== undefined) this.outbox.acknowledge(lastSeen);
    let cursor = lastSeen ?? 0n;
    this.renewLease();
    this.setConnected(true);
    const onAbort = () => {
      if (this.epoch === epoch) this.setConnected(false);
      this.woken.notify();
    };
    signal.addEventListener('abort', onAbort, { once: true });
    let pingDue = false;
    const ping = setInterval(() => {
      pingDue = true;
      this.woken.notify();
    }, this.settings.heartbeatMs);
    try {
      yield this.welcome(lastSeen !== undefined);
      while (!signal.aborted) {
        if (this.ended) throw this.ended;
        if (this.epoch !== epoch) throw new ConnectError('A newer Attach took this session over.', Code.Aborted);
        const next = this.outbox.after(cursor);
        if (next) {
          cursor = next.seq;
          yield next;
        } else if (pingDue) {
          pingDue = false;
          yield create(NodeCommandSchema, { command: { case: 'ping', value: {} } });
        } else await this.woken.wait();
      }
    } finally {
      clearInterval(ping);
      signal.removeEventListener('abort', onAbort);
      if (this.epoch === epoch) this.setConnected(false);
    }
  }

  /** Takes a report in; returns the last seq taken in. Throws ConnectError, after which the session may be over. */
  report(request: ReportRequest): bigint {
    if (this.ended) throw new ConnectError(`The session is over: ${this.ended.rawMessage}`, Code.Aborted);
    if (request.sessionEpoch !== this.epoch) {
      throw new ConnectError('The report is of an older session epoch.', Code.Aborted);
    }
    this.renewLease();
    try {
      this.outbox.acknowledge(request.lastCommandSeq);
      if (request.load) this.load = checkLoad(request.load, this.facts);
      if (request.seq === 0n) {
        if (request.events.length > 0) throw new Lie('events in a heartbeat');
      } else if (request.seq > this.lastReportSeq) {
        if (request.seq !== this.lastReportSeq + 1n) {
          throw new Lie(`report ${request.seq} after report ${this.lastReportSeq}`);
        }
        // Counted before its events: a report that ends the session is not taken in a second time either.
        this.lastReportSeq = request.seq;
        for (const event of request.events) this.take(event);
      }
    } catch (error) {
      // A fault of ours half-way through a report would leave its jobs without tokens that count as told.
      const reason =
        error instanceof Lie
          ? new ConnectError(`The node told what can't be: ${error.message}.`, Code.InvalidArgument)
          : new ConnectError('The relay could not take the report in.', Code.Internal, undefined, undefined, error);
      for (const { job } of this.jobs.values()) job.refusedBy.add(this.facts.nodeId);
      this.end(reason);
      throw reason;
    }
    this.giveBackStalled();
    return this.lastReportSeq;
  }

  /** Ends the session; its jobs go to the owner. Harmless when done twice. */
  end(reason: ConnectError): void {
    if (this.ended) return;
    this.ended = reason;
    this.connected = false;
    clearTimeout(this.leaseTimer);
    clearTimeout(this.streamTimer);
    const jobs = [...this.jobs.values()].map(({ job }) => job);
    this.jobs.clear();
    this.outbox.clear();
    for (const job of jobs) {
      job.host = undefined;
      job.interrupted = true;
    }
    this.woken.notify();
    this.owner.onLinkEnd(this, jobs);
  }

  private take(event: NodeEvent): void {
    const entry = this.jobs.get(event.jobId);
    if (!entry) {
      if (this.recentJobs.has(event.jobId)) return;
      throw new Lie('an event of a job that it never had');
    }
    const { job, maxNewTokens } = entry;
    const bounds = { vocabSize: this.settings.vocabSize, maxNewTokens };
    const sample = job.samples[event.index];
    if (!sample) throw new Lie('an event of a sample that nobody asked for');
    switch (event.event.case) {
      case 'tokens': {
        const { value } = event.event;
        const tokens = checkTokens(job, sample, value, bounds);
        entry.progressAt = performance.now();
        sample.cachedTokens ??= Math.min(value.cachedTokens, job.request.inputIds.length - 1);
        job.append(sample, tokens);
        this.owner.onTokens(tokens.length);
        return;
      }
      case 'finished': {
        const { value } = event.event;
        const finish = checkFinished(job, sample, value, bounds);
        sample.cachedTokens ??= Math.min(value.cachedTokens, job.request.inputIds.length - 1);
        job.finishSample(sample, finish);
        this.owner.onLinkChange(this);
        return;
      }
      case 'failed':
        this.giveBack(job, event.event.value.code, event.event.value.message);
        return;
      default:
        throw new Lie('an event without content');
    }
  }

  /** A sample failed at the node: the whole job leaves it, so that its samples stay together. */
  private giveBack(job: Job, code: number, message: string): void {
    job.refusedBy.add(this.facts.nodeId);
    job.lastRefusal = new ContractError(
      isStatusCode(code) ? code : Code.Internal,
      // Printable and short: a stranger wrote it.
      message.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 300) || 'The node failed.',
    );
    job.host = undefined;
    job.interrupted = true;
    this.forget(job);
    this.send({ case: 'abort', value: { jobId: job.id } });
    this.owner.onJobFailed(this, job);
  }

  /** A node that reports, but makes no tokens, would keep a job until its last deadline. */
  private giveBackStalled(): void {
    const since = performance.now() - this.settings.tokenStallMs;
    for (const { job, progressAt } of [...this.jobs.values()]) {
      if (progressAt === undefined || progressAt > since) continue;
      if (job.unfinished.every((sample) => sample.ids.length >= sample.credit)) continue;
      this.giveBack(job, Code.Unavailable, 'The node stopped making tokens.');
    }
  }

  private forget(job: Job): boolean {
    if (!this.jobs.delete(job.id)) return false;
    this.recentJobs.add(job.id);
    if (this.recentJobs.size > REMEMBERED_JOBS) {
      for (const oldest of this.recentJobs) {
        this.recentJobs.delete(oldest);
        break;
      }
    }
    return true;
  }

  private welcome(resumed: boolean): NodeCommand {
    const { relayEpoch, leaseMs, heartbeatMs, build } = this.settings;
    return create(NodeCommandSchema, {
      required: true,
      command: {
        case: 'welcome',
        value: {
          relayEpoch,
          sessionEpoch: this.epoch,
          sessionToken: this.token,
          rank: this.rank,
          leaseMs,
          heartbeatMs,
          resumed,
          lastReportSeq: this.lastReportSeq,
          build,
        },
      },
    });
  }

  private send(command: NonNullable<MessageInitShape<typeof NodeCommandSchema>['command']>): void {
    if (this.ended) return;
    this.outbox.push(command);
    if (this.outbox.unacknowledged > MAX_UNACKNOWLEDGED) {
      // Not from inside the caller, who may be in the middle of placing jobs.
      queueMicrotask(() => this.end(new ConnectError('The node acknowledges no commands.', Code.ResourceExhausted)));
    }
    this.woken.notify();
  }

  private renewLease(): void {
    clearTimeout(this.leaseTimer);
    this.leaseTimer = setTimeout(() => {
      this.end(new ConnectError('The lease ran out: the node fell silent.', Code.DeadlineExceeded));
    }, this.settings.leaseMs);
  }

  private setConnected(connected: boolean): void {
    if (this.connected === connected || this.ended) return;
    this.connected = connected;
    clearTimeout(this.streamTimer);
    if (!connected) {
      // Reports alone don't keep a session: without the stream the node gets no command.
      this.streamTimer = setTimeout(() => {
        this.end(new ConnectError('The lease ran out: the node did not open its stream again.', Code.DeadlineExceeded));
      }, this.settings.leaseMs);
    }
    this.owner.onLinkChange(this);
  }
}
