import { randomBytes } from 'node:crypto';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Logger } from 'pino';
import type {
  AttachRequest,
  DetachRequest,
  NodeCommand,
  ReportRequest,
  Resume,
} from '../contract/gen/node_relay_pb.ts';
import { isOtherBuild } from '../contract/other-build.ts';
import { hasRoom } from './choose-node.ts';
import type { Job } from './job.ts';
import type { LinkOwner } from './link-owner.ts';
import type { LinkSettings } from './link-settings.ts';
import { readNodeFacts, type WantedModel } from './node-facts.ts';
import { NodeLink } from './node-link.ts';
import { viewOf } from './node-view.ts';
import { MAX_NODES } from './options.ts';
import { PrefixIndex } from './prefix-index.ts';
import { AUDITED_OUT_MS, PutOut } from './put-out.ts';
import { RecentLosses } from './recent-losses.ts';
import { Signal } from './signal.ts';

export interface FleetSettings extends Omit<LinkSettings, 'relayEpoch' | 'prefixes' | 'losses'>, WantedModel {
  readonly ranks: number | undefined;
}

/** What the fleet tells the rest of the relay. */
export interface FleetEvents {
  onLost(jobs: readonly Job[], link: NodeLink): void;
  onChange(): void;
  onTokens(count: number, ms: number | undefined): void;
  onEmbedded(tokens: number): void;
  /** A session began. */
  onOpened(link: NodeLink): void;
}

/** Ends of sessions that are no loss: planned ones. */
const LEAVES: ReadonlySet<Code> = new Set([Code.Aborted, Code.Unavailable]);
/** Failures that are the request's fault, or say that a node has too little. */
const CLIENTS: ReadonlySet<Code | undefined> = new Set([
  Code.InvalidArgument,
  Code.ResourceExhausted,
  Code.Unimplemented,
]);

/** All nodes: who they are, which rank they hold, and which of their words are of the newest epoch. */
export class Fleet implements LinkOwner {
  /** New at each start of the relay. */
  readonly relayEpoch = randomBytes(8).readBigUInt64LE() >> 1n;
  /** Nodes came or went, or can be reached again. */
  readonly changed = new Signal();
  /** Which prefixes each node caches. */
  readonly prefixes = new PrefixIndex();
  private readonly sessions = new Map<string, NodeLink>();
  private readonly putOut = new PutOut();
  private readonly auditedOut = new PutOut(undefined, AUDITED_OUT_MS);
  private readonly losses = new RecentLosses();
  private lastEpoch = 0n;
  private closed = false;
  /** Of the model that nodes must hold. */
  private digest: string;
  private readonly settings: FleetSettings;
  private readonly events: FleetEvents;
  private readonly log: Logger;

  constructor(settings: FleetSettings, events: FleetEvents, log: Logger) {
    this.settings = settings;
    this.digest = settings.digest;
    this.events = events;
    this.log = log;
  }

  /** All sessions, those within their lease but out of reach included; by rank. */
  get links(): readonly NodeLink[] {
    return [...this.sessions.values()].sort((a, b) => a.rank - b.rank);
  }

  /** Nodes are there, and the users of all hold them. */
  get paused(): boolean {
    return this.sessions.size > 0 && this.links.every((link) => link.paused);
  }

  get serving(): readonly NodeLink[] {
    return this.links.filter((link) => link.serving);
  }

  /** KV slots of the largest node; undefined while none serves. */
  get largestPool(): number | undefined {
    const pools = this.serving.map((link) => link.facts.poolTokens);
    return pools.length > 0 ? Math.max(...pools) : undefined;
  }

  /** Opens or resumes a session. `trusted`: with an operator's own page. Throws ConnectError before the first command. */
  attach(request: AttachRequest, signal: AbortSignal, trusted = false): AsyncGenerator<readonly NodeCommand[]> {
    if (this.closed) throw new ConnectError('The relay is closing.', Code.Unavailable);
    const facts = readNodeFacts(request, { digest: this.digest, layers: this.settings.layers });
    if (request.resume) {
      const link = this.resumable(request.resume);
      const seen = request.resume.lastCommandSeq;
      if (seen > link.outbox.lastSeq)
        throw new ConnectError('last_command_seq is of a command never sent.', Code.InvalidArgument);
      this.drainOther(link, request.build);
      return link.attach(++this.lastEpoch, seen, signal);
    }
    const banMs = Math.max(this.putOut.leftMs(facts.nodeId), this.auditedOut.leftMs(facts.nodeId));
    if (banMs > 0) {
      // A status after which a page tries again, at its longest pause.
      const wait = `taken again in ${Math.ceil(banMs / 1000)} s`;
      throw new ConnectError(`A node of this id told what can't be: it is ${wait}.`, Code.Unavailable);
    }
    for (const link of this.sessions.values()) {
      if (link.facts.nodeId !== facts.nodeId) continue;
      // It came back without the word that it would leave.
      if (link.runningJobs > 0) this.losses.add(facts.nodeId);
      link.end(new ConnectError('A newer Attach of the same node took over.', Code.Aborted));
    }
    const rank = this.freeRank();
    const { relayEpoch, prefixes, losses } = this;
    const link = new NodeLink(facts, rank, { ...this.settings, relayEpoch, prefixes, losses }, this, trusted);
    this.sessions.set(link.token, link);
    this.events.onOpened(link);
    this.log.info({ rank, node: facts.nodeId, adapter: facts.adapter }, 'node attached');
    this.drainOther(link, facts.build);
    return link.attach(++this.lastEpoch, undefined, signal);
  }

  /** Throws ConnectError (ABORTED) for a session or an epoch that is past. */
  report(request: ReportRequest): bigint {
    return this.current(request.sessionToken, request.relayEpoch).report(request);
  }

  /** Idempotent; a Detach of an older epoch changes nothing. */
  detach(request: DetachRequest): void {
    const link = this.current(request.sessionToken, request.relayEpoch);
    if (request.sessionEpoch !== link.sessionEpoch) {
      throw new ConnectError('The detach is of an older session epoch.', Code.Aborted);
    }
    link.end(new ConnectError('The node detached.', Code.Aborted));
  }

  /** An audit found that the node of this id lies: its work goes on elsewhere, and it isn't taken again for long. */
  expel(nodeId: string): void {
    this.auditedOut.add(nodeId);
    const why = "The node told what can't be: an output that the model does not give.";
    for (const link of this.links) {
      if (link.facts.nodeId === nodeId) link.end(new ConnectError(why, Code.InvalidArgument));
    }
  }

  /** Nodes must hold the model of that digest from now on: all sessions end, and their nodes come again with it. */
  serveOther(digest: string): void {
    this.digest = digest;
    const why = 'The weights were updated: attach afresh with the model of /model/manifest.json.';
    for (const link of this.links) link.end(new ConnectError(why, Code.Aborted));
    this.prefixes.clear();
  }

  close(): void {
    this.closed = true;
    for (const link of this.links) link.end(new ConnectError('The relay is closing.', Code.Unavailable));
  }

  onLinkEnd(link: NodeLink, jobs: readonly Job[]): void {
    this.sessions.delete(link.token);
    if (link.lied) this.putOut.add(link.facts.nodeId);
    if (link.ended && !LEAVES.has(link.ended.code)) this.losses.add(link.facts.nodeId);
    const facts = { rank: link.rank, reason: link.ended?.rawMessage, jobs: jobs.length };
    // A node put out is an operator's concern; one that goes is not.
    if (link.lied) this.log.warn(facts, 'node put out for a lie');
    else this.log.info(facts, 'node session over');
    this.events.onLost(jobs, link);
    this.notify();
  }

  onLinkChange(): void {
    this.notify();
  }

  onJobFailed(link: NodeLink, job: Job): void {
    if (!CLIENTS.has(job.lastRefusal?.code)) this.losses.add(link.facts.nodeId);
    this.log.warn({ rank: link.rank, job: String(job.id), code: job.lastRefusal?.code }, 'node failed a job');
    this.events.onLost([job], link);
  }

  couldMove(link: NodeLink, job: Job): boolean {
    const samples = job.unfinished.length;
    return this.links.some((other) => {
      if (other === link || (job.request.rank ?? other.rank) !== other.rank) return false;
      const view = viewOf(other, job);
      return view.willing && view.fits && hasRoom(view, samples);
    });
  }

  onJobMoved(link: NodeLink, job: Job): void {
    this.log.info({ rank: link.rank, job: String(job.id) }, 'a leaving node handed a job over');
    this.events.onLost([job], link);
  }

  onTokens(count: number, ms: number | undefined): void {
    this.events.onTokens(count, ms);
  }

  onEmbedded(tokens: number): void {
    this.events.onEmbedded(tokens);
  }

  /** A page of another build finishes what it has and reloads: what is new would be lost with it. */
  private drainOther(link: NodeLink, build: AttachRequest['build']): void {
    if (isOtherBuild(build, this.settings.build)) link.drain('The relay serves another build of the page.');
  }

  private notify(): void {
    this.events.onChange();
    this.changed.notify();
  }

  private resumable(resume: Resume): NodeLink {
    const link = this.current(resume.sessionToken, resume.relayEpoch);
    if (resume.sessionEpoch > link.sessionEpoch) throw new ConnectError('session_epoch was never given.', Code.Aborted);
    return link;
  }

  private current(token: string, relayEpoch: bigint): NodeLink {
    if (relayEpoch !== this.relayEpoch) throw new ConnectError('The relay was restarted: attach afresh.', Code.Aborted);
    const link = this.sessions.get(token);
    if (!link) throw new ConnectError('The session is over: attach afresh.', Code.Aborted);
    return link;
  }

  private freeRank(): number {
    const { ranks } = this.settings;
    const taken = new Set([...this.sessions.values()].map((link) => link.rank));
    let rank = 0;
    while (taken.has(rank)) rank++;
    if (rank >= (ranks ?? MAX_NODES)) {
      throw new ConnectError(`All ${ranks ?? MAX_NODES} ranks are taken.`, Code.ResourceExhausted);
    }
    return rank;
  }
}
