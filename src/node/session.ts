import { clone, create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import {
  type AttachRequest,
  AttachRequestSchema,
  type NodeCommand,
  type NodeEventSchema,
  ResumeSchema,
  type Welcome,
} from '../contract/gen/node_relay_pb.ts';
import { isOtherBuild } from '../contract/other-build.ts';
import { backoffMs } from './backoff.ts';
import { refusedEmbed } from './embed-target.ts';
import { takeAdapterCommand } from './node-adapters.ts';
import { RelayProfiles } from './relay-profiles.ts';
import { ReportQueue } from './report-queue.ts';
import type { SessionEnd, SessionKey, SessionOptions } from './session-options.ts';
import { FENCED, REFUSALS } from './session-statuses.ts';
import { weightOf } from './weight.ts';
import { admissionPolicy, cacheEvent, engineRequest } from './wire.ts';

interface Attached extends SessionKey {
  readonly leaseMs: number;
  readonly heartbeatMs: number;
}

/** Before `welcome` has said how long the lease is. */
const ATTACH_TIMEOUT_MS = 10_000;
const DETACH_TIMEOUT_MS = 2_000;
/** For the welcome of an Attach under way, once it is to be left. */
const LEAVE_TIMEOUT_MS = 500;
const REPORT_RETRY_MS = 200;
/** Blocks of the prefix cache that one report tells of: some 10 KB. */
const MOST_NEWS_BLOCKS = 128;

/**
 * A node's session with its relay: attach, take commands in order, report events until they are acknowledged, attach
 * again after a cut. docs/relay-protocol.md tells the protocol.
 */
export class Session {
  readonly #options: SessionOptions;
  readonly #queue = new ReportQueue<MessageInitShape<typeof NodeEventSchema>>(weightOf);
  #attached: Attached | undefined;
  #lastCommandSeq = 0n;
  /** Why the loop should stop, once something says so. */
  #end: SessionEnd | undefined;
  #draining = false;
  #otherBuild = false;
  readonly #profiles: RelayProfiles;
  #stream = new AbortController();
  /** An Attach is under way, and its welcome not here. */
  #attaching = false;
  /** Cuts a pause short. */
  #wake = () => {};

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#profiles = new RelayProfiles(
      options,
      () => this.#attached?.sessionToken,
      (event) => this.#queue.push([event]),
    );
  }

  /** Events for the relay, in order. */
  report(events: readonly MessageInitShape<typeof NodeEventSchema>[]): void {
    this.#queue.push(events);
  }

  /** Tells the load at once, not with the next event or heartbeat. */
  tellLoad(): void {
    this.#queue.poke();
  }

  /** Serves until it is left or refused. */
  async run(): Promise<SessionEnd> {
    const { onState, random } = this.#options;
    let failures = 0;
    onState('attaching', '');
    while (this.#end === undefined) {
      const welcomed = await this.#serve();
      failures = welcomed ? 0 : failures + 1;
      if (this.#end === undefined) await this.#pause(backoffMs(failures, random));
    }
    await this.#detach(this.#end);
    return this.#end;
  }

  /** Says Detach and ends `run`: the relay moves or ends what runs here. */
  leave(): void {
    this.#options.onState('leaving', '');
    this.#end ??= { why: 'left' };
    // Only its welcome has what Detach names: without a word the relay would keep the session for a lease.
    if (this.#attaching) setTimeout(() => this.#stream.abort(), LEAVE_TIMEOUT_MS);
    else this.#stop(this.#end);
  }

  /** Forgets the session and attaches anew: the page has said Detach, or slept past its lease. */
  restart(): void {
    this.#forget();
    this.#stream.abort();
    this.#wake();
  }

  /** One Attach and the life of its stream. True: the relay said welcome. */
  async #serve(): Promise<boolean> {
    const { client, onState } = this.#options;
    const stream = new AbortController();
    this.#stream = stream;
    let silence = setTimeout(() => stream.abort(), ATTACH_TIMEOUT_MS);
    let reporting: Promise<void> | undefined;
    this.#attaching = true;
    try {
      for await (const command of client.attach(this.#attachRequest(), { signal: stream.signal })) {
        if (stream.signal.aborted) break;
        clearTimeout(silence);
        // The relay pings each heartbeat: silence is a dead connection, and half a lease is left to attach again.
        silence = setTimeout(() => stream.abort(), (this.#attached?.leaseMs ?? 2 * ATTACH_TIMEOUT_MS) / 2);
        if (command.command.case === 'welcome') {
          this.#welcome(command.command.value);
          if (this.#end !== undefined) break;
          reporting = this.#reportWhile(stream);
        } else {
          this.#take(command);
        }
      }
    } catch (error) {
      this.#attachFailed(ConnectError.from(error));
    } finally {
      clearTimeout(silence);
      this.#attaching = false;
      stream.abort();
      await reporting;
    }
    if (this.#end === undefined) onState('reconnecting', '');
    return reporting !== undefined;
  }

  #attachRequest(): AttachRequest {
    const request = clone(AttachRequestSchema, this.#options.identity);
    if (this.#attached) {
      const { sessionToken, relayEpoch, sessionEpoch } = this.#attached;
      const lastCommandSeq = this.#lastCommandSeq;
      request.resume = create(ResumeSchema, { sessionToken, relayEpoch, sessionEpoch, lastCommandSeq });
    }
    return request;
  }

  #attachFailed(error: ConnectError): void {
    if (REFUSALS.has(error.code)) this.#stop({ why: 'refused', message: error.rawMessage });
    else if (FENCED.has(error.code)) this.#forget();
  }

  #welcome(welcome: Welcome): void {
    const { sessionToken, relayEpoch, sessionEpoch, leaseMs, heartbeatMs } = welcome;
    if (!welcome.resumed) {
      this.#forget();
      this.#options.target.beginCacheNews();
      this.#options.adapters?.reset();
    }
    this.#queue.acknowledge(welcome.lastReportSeq);
    this.#attached = { sessionToken, relayEpoch, sessionEpoch, leaseMs, heartbeatMs };
    this.#otherBuild = isOtherBuild(this.#options.identity.build, welcome.build);
    this.#options.target.setPolicy(admissionPolicy(welcome.schedulePolicy));
    this.#options.onKey(this.#attached, welcome.rank);
    this.#attaching = false;
    if (this.#end === undefined) this.#options.onState('serving', '');
    this.#endIfDone();
  }

  /** A command of the stream. What was seen before comes again after a resume and is dropped. */
  #take(command: NodeCommand): void {
    const { target } = this.#options;
    if (command.seq !== 0n) {
      if (command.seq <= this.#lastCommandSeq) return;
      if (command.seq !== this.#lastCommandSeq + 1n) throw new ConnectError('a command is missing', Code.DataLoss);
      this.#lastCommandSeq = command.seq;
    }
    const { case: name, value } = command.command;
    if (name === 'generate') {
      this.#options.onRequest?.(value);
      target.submit(engineRequest(value));
    } else if (name === 'embed') {
      this.#options.onRequest?.(value);
      if (target.embed) target.embed(value);
      else this.#queue.push(refusedEmbed(value));
    } else if (name === 'loadAdapter' || name === 'unloadAdapter') {
      this.#queue.push(takeAdapterCommand(this.#options.adapters, value));
    } else if (name === 'abort') target.abort(value.jobId);
    else if (name === 'grant') target.grant(value.jobId, value.index, value.credit);
    else if (name === 'drain') this.#draining = true;
    else if (name === 'flushCache') this.#flushCache(value.flushId);
    else if (name === 'profile') void this.#profiles.take(value);
    else if (name === undefined && command.required) {
      this.#stop({ why: 'refused', message: 'the relay asks for something that this page does not know: reload it' });
    }
    this.#endIfDone();
  }

  #flushCache(flushId: bigint): void {
    const freedTokens = this.#options.target.flushCache();
    this.#queue.push([{ event: { case: 'cacheFlushed', value: { flushId, freedTokens } } }]);
  }

  /** Sends reports, one at a time, and heartbeats when there is nothing to tell, as long as the stream lives. */
  async #reportWhile(stream: AbortController): Promise<void> {
    while (!stream.signal.aborted && this.#attached) {
      await this.#queue.wait(this.#attached.heartbeatMs, stream.signal);
      if (stream.signal.aborted) return;
      try {
        await this.#reportOnce(stream.signal);
        this.#endIfDone();
      } catch (error) {
        if (stream.signal.aborted) return;
        const { code } = ConnectError.from(error);
        if (FENCED.has(code)) this.#forget();
        if (FENCED.has(code) || REFUSALS.has(code)) stream.abort();
        else await this.#pause(REPORT_RETRY_MS);
      }
    }
  }

  async #reportOnce(signal: AbortSignal): Promise<void> {
    const attached = this.#attached;
    if (!attached) return;
    const { sessionToken, relayEpoch, sessionEpoch, leaseMs } = attached;
    this.#queueCacheNews();
    const batch = this.#queue.next();
    const response = await this.#options.client.report(
      {
        sessionToken,
        relayEpoch,
        sessionEpoch,
        seq: batch.seq,
        lastCommandSeq: this.#lastCommandSeq,
        events: [...batch.events],
        load: this.#options.load(),
      },
      { signal, timeoutMs: leaseMs / 2 },
    );
    // A forgotten session's answer says nothing about the new one's reports.
    if (this.#attached === attached) this.#queue.acknowledge(response.lastReportSeq);
  }

  /** What the prefix cache has to tell goes with the next report; what is too much for it goes at once with another. */
  #queueCacheNews(): void {
    if (!this.#queue.hasRoom) return;
    const { target } = this.#options;
    this.#queue.push(target.takeCacheNews(MOST_NEWS_BLOCKS).map(cacheEvent));
    if (target.hasCacheNews) this.#queue.poke();
  }

  #endIfDone(): void {
    if (!this.#options.target.idle || !this.#queue.empty) return;
    if (this.#otherBuild) this.#stop({ why: 'other-build' });
    else if (this.#draining) this.#stop({ why: 'left' });
  }

  #stop(end: SessionEnd): void {
    this.#end ??= end;
    this.#stream.abort();
    this.#wake();
  }

  /** The relay has forgotten the session, or will: its jobs and reports are of no use any more. */
  #forget(): void {
    this.#options.target.abortAll();
    this.#queue.reset();
    this.#lastCommandSeq = 0n;
    this.#attached = undefined;
    this.#draining = false;
    this.#options.onKey(undefined, undefined);
  }

  async #detach(end: SessionEnd): Promise<void> {
    const key = this.#attached;
    this.#forget();
    if (!key) return;
    const { sessionToken, relayEpoch, sessionEpoch } = key;
    const reason = end.why === 'refused' ? end.message : end.why;
    await this.#options.client
      .detach({ sessionToken, relayEpoch, sessionEpoch, reason }, { timeoutMs: DETACH_TIMEOUT_MS })
      // The lease ends it if the word does not arrive.
      .catch(() => {});
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
