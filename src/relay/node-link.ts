import { randomBytes } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { NodeCommand, NodeCommandSchema, NodeLoad, ReportRequest } from '../contract/gen/node_relay_pb.ts';
import { checkLoad } from './check-load.ts';
import { CommandOutbox } from './command-outbox.ts';
import { type StreamSource, streamCommands } from './command-stream.ts';
import { embedCommand } from './embed-command.ts';
import { generateCommand, newTokensAt } from './generate-command.ts';
import type { Job, JobHost } from './job.ts';
import { JobMoves } from './job-moves.ts';
import { faultOf, Lie } from './lie.ts';
import { LinkAsks } from './link-asks.ts';
import { LinkClocks } from './link-clocks.ts';
import { LinkEvents } from './link-events.ts';
import type { LinkOwner } from './link-owner.ts';
import type { LinkSettings } from './link-settings.ts';
import { LinkAdapters } from './lora/link-adapters.ts';
import type { NodeFacts } from './node-facts.ts';
import type { NodePrefixes } from './node-prefixes.ts';
import { RunningJob, RunningJobs } from './running-jobs.ts';
import type { Sample } from './sample.ts';
import { Signal } from './signal.ts';
import { SpeedMeter } from './speed-meter.ts';
import { welcomeCommand } from './welcome-command.ts';

/** Commands that wait for a node's acknowledgement; a node that lets more pile up is put out. */
const MAX_UNACKNOWLEDGED = 20_000;

/**
 * One session with one node. It outlives the connections it runs over: commands are numbered and kept until the node
 * acknowledges them, reports are numbered and taken in once, and only silence longer than the lease ends it.
 */
export class NodeLink implements JobHost, StreamSource {
  readonly token = randomBytes(24).toString('base64url');
  readonly facts: NodeFacts;
  readonly rank: number;
  /** An operator's own page. */
  readonly trusted: boolean;
  readonly outbox = new CommandOutbox();
  readonly woken = new Signal();
  load: NodeLoad | undefined;
  /** Why the session is over. */
  ended: ConnectError | undefined;
  /** It is over since the node told what can't be. */
  lied = false;
  /** As it is counted here. */
  readonly speed = new SpeedMeter();
  readonly asks = new LinkAsks((command) => void this.send(command));
  /** LoRA adapters that it holds. */
  readonly adapters: LinkAdapters;
  /** What it caches. */
  readonly prefixes: NodePrefixes;
  private readonly jobs: RunningJobs;
  private readonly events: LinkEvents;
  private readonly moves: JobMoves;
  readonly clocks: LinkClocks;
  private readonly settings: LinkSettings;
  private readonly owner: LinkOwner;
  /** By `performance.now()`. */
  readonly attachedAt = performance.now();
  /** Tokens in all, as they came. */
  madeTokens = 0;
  /** In all. */
  private givenSamples = 0;
  private lastReportSeq = 0n;
  private epoch = 0n;
  private connected = false;
  private draining = false;

  constructor(facts: NodeFacts, rank: number, settings: LinkSettings, owner: LinkOwner, trusted = false) {
    this.facts = facts;
    this.trusted = trusted;
    this.rank = rank;
    this.settings = settings;
    this.owner = owner;
    this.clocks = new LinkClocks(settings.leaseMs, (why) => this.end(new ConnectError(why, Code.DeadlineExceeded)));
    this.prefixes = settings.prefixes.open(rank, facts.poolTokens, settings.vocabSize);
    this.jobs = new RunningJobs(this.prefixes);
    this.adapters = new LinkAdapters(
      (command) => void this.send(command),
      () => owner.onLinkChange(this),
    );
    const { jobs, prefixes, adapters } = this;
    const { flushes, profiles } = this.asks;
    const { tokenStallMs } = settings;
    this.moves = new JobMoves({ link: this, jobs, owner, tokenStallMs, abort: (job) => this.sendAbort(job) });
    this.events = new LinkEvents({
      ...{ facts, jobs, flushes, profiles, prefixes, adapters, settings },
      onTokens: (count, ms) => {
        this.moves.tokensCame();
        this.madeTokens += count;
        if (ms !== undefined) this.speed.add(count, ms);
        owner.onTokens(count, ms);
      },
      onEmbedded: (tokens) => {
        this.moves.tokensCame();
        owner.onEmbedded(tokens);
      },
      onFinished: () => owner.onLinkChange(this),
      onFailed: (job, code, message) => this.moves.giveBack(job, code, message),
    });
  }

  /** Its user holds it: it finishes what it has. */
  get paused(): boolean {
    return this.load?.paused === true;
  }

  /** Of a session that goes on. */
  get state(): 'serving' | 'paused' | 'leaving' | 'out of reach' {
    if (!this.connected) return 'out of reach';
    if (this.draining) return 'leaving';
    return this.paused ? 'paused' : 'serving';
  }

  /** Whether new jobs may go there: its stream is open, it isn't leaving, and nobody holds it. */
  get serving(): boolean {
    return this.state === 'serving' && this.ended === undefined;
  }

  /** Of the newest Attach. */
  get sessionEpoch(): bigint {
    return this.epoch;
  }

  get runningJobs(): number {
    return this.jobs.size;
  }

  /** Sequences that the node has been given and has not ended. */
  get runningSamples(): number {
    return this.jobs.samples;
  }

  /** Those of them that ran and wait again, as the node last told: what ended since is none of them any more. */
  get retractedSamples(): number | undefined {
    const retracted = this.load?.retracted;
    return retracted === undefined ? undefined : Math.min(retracted, this.runningSamples);
  }

  /** Prompts and outputs of what runs there. */
  get heldTokens(): number {
    return this.jobs.heldTokens;
  }

  /** What the node lost or failed of late. */
  get losses(): number {
    return this.settings.losses.of(this.facts.nodeId);
  }

  run(job: Job): void {
    const maxNewTokens = newTokensAt(job, this.facts);
    job.giveTo(this);
    this.givenSamples += job.unfinished.length;
    const seq = job.request.embedInputs
      ? this.send({ case: 'embed', value: embedCommand(job) })
      : this.send({ case: 'generate', value: generateCommand(job, maxNewTokens) });
    this.jobs.add(new RunningJob(job, this.facts.nodeId, maxNewTokens, seq));
  }

  grant(job: Job, sample: Sample): void {
    this.jobs.find(job.id)?.gaveCredit(sample);
    this.send({ case: 'grant', value: { jobId: job.id, index: sample.index, credit: sample.credit } });
  }

  release(job: Job): void {
    if (!this.jobs.remove(job)) return;
    if (job.samples.some(({ finish }) => finish === undefined || finish.reason === 'abort')) {
      this.sendAbort(job);
    }
    this.owner.onLinkChange(this);
  }

  /**
   * Nothing new comes, and what runs there goes on for `drainMs`, then wherever it is taken. Harmless when done twice.
   */
  drain(reason: string): void {
    if (this.draining) return;
    this.draining = true;
    const { drainMs } = this.settings;
    this.send({ case: 'drain', value: { reason, handOverMs: drainMs } });
    this.clocks.after(drainMs, () => this.moves.handOver());
    this.owner.onLinkChange(this);
  }

  /** The stream of one Attach. `lastSeen` is the last command that a resumed session's node has seen. */
  async *attach(
    epoch: bigint,
    lastSeen: bigint | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<readonly NodeCommand[]> {
    this.epoch = epoch;
    this.woken.notify();
    if (lastSeen !== undefined) this.outbox.acknowledge(lastSeen);
    this.clocks.renewLease();
    this.setConnected(true);
    const gone = () => {
      if (this.epoch === epoch) this.setConnected(false);
    };
    signal.addEventListener('abort', gone, { once: true });
    try {
      const { token: sessionToken, rank, lastReportSeq } = this;
      const session = { sessionEpoch: epoch, sessionToken, rank, lastReportSeq, resumed: lastSeen !== undefined };
      const welcome = welcomeCommand(session, this.settings);
      const { heartbeatMs } = this.settings;
      yield* streamCommands(this, { epoch, welcome, lastSeen: lastSeen ?? 0n, heartbeatMs }, signal);
    } finally {
      signal.removeEventListener('abort', gone);
      gone();
    }
  }

  /** Takes a report in; returns the last seq taken in. Throws ConnectError, after which the session may be over. */
  report(request: ReportRequest): bigint {
    if (this.ended) throw new ConnectError(`The session is over: ${this.ended.rawMessage}`, Code.Aborted);
    if (request.sessionEpoch !== this.epoch) {
      throw new ConnectError('The report is of an older session epoch.', Code.Aborted);
    }
    this.clocks.renewLease();
    try {
      this.outbox.acknowledge(request.lastCommandSeq);
      if (request.load) this.takeLoad(request.load);
      if (request.seq === 0n) {
        if (request.events.length > 0) throw new Lie('events in a heartbeat');
      } else if (request.seq > this.lastReportSeq) {
        if (request.seq !== this.lastReportSeq + 1n) {
          throw new Lie(`report ${request.seq} after report ${this.lastReportSeq}`);
        }
        // Counted before its events: a report that ends the session is not taken in a second time either.
        this.lastReportSeq = request.seq;
        this.events.takeAll(request.events, request.load);
      }
    } catch (error) {
      this.lied = error instanceof Lie;
      const reason = faultOf(error);
      for (const { job } of this.jobs.all) job.refusedBy.add(this.facts.nodeId);
      this.end(reason);
      throw reason;
    }
    this.moves.move();
    return this.lastReportSeq;
  }

  /** Ends the session; its jobs go to the owner. Harmless when done twice. */
  end(reason: ConnectError): void {
    if (this.ended) return;
    this.ended = reason;
    this.connected = false;
    this.clocks.stop();
    const running = this.jobs.clear();
    // One whose command may never have arrived still waits for its first node.
    for (const one of running) one.job.leaveHost(one.begun(this.outbox.acknowledgedSeq));
    this.outbox.clear();
    this.asks.end();
    this.adapters.clear();
    this.settings.prefixes.close(this.prefixes);
    this.woken.notify();
    this.owner.onLinkEnd(
      this,
      running.map(({ job }) => job),
    );
  }

  /** `load` is what the same report told. */
  private takeLoad(load: NodeLoad): void {
    const wasPaused = this.paused;
    this.load = checkLoad(load, this.facts, this.givenSamples);
    if (this.paused !== wasPaused) this.owner.onLinkChange(this);
  }

  private sendAbort({ id: jobId }: Job): void {
    this.send({ case: 'abort', value: { jobId } });
  }

  /** Its number. */
  private send(command: NonNullable<MessageInitShape<typeof NodeCommandSchema>['command']>): bigint {
    if (this.ended) return this.outbox.lastSeq;
    const seq = this.outbox.push(command);
    if (this.outbox.unacknowledged > MAX_UNACKNOWLEDGED) {
      // Not from inside the caller, who may be in the middle of placing jobs.
      queueMicrotask(() => this.end(new ConnectError('The node acknowledges no commands.', Code.ResourceExhausted)));
    }
    this.woken.notify();
    return seq;
  }

  private setConnected(connected: boolean): void {
    if (this.connected === connected || this.ended) return;
    this.connected = connected;
    this.clocks.streamOpen(connected);
    this.owner.onLinkChange(this);
  }
}
