import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type Client, Code, ConnectError } from '@connectrpc/connect';
import {
  type AttachRequest,
  type Embed,
  type Generate,
  KvType,
  type NodeCommand,
  type NodeEvent,
  NodeEventSchema,
  type NodeLoadSchema,
  type NodeRelay,
  Precision,
  type ProfiledSchema,
  type Welcome,
} from '../../contract/gen/node_relay_pb.ts';
import { type NodeDoor, nodeClient } from './node-client.ts';
import { type EngineScript, ScriptedEngine } from './scripted-engine.ts';
import { ScriptedVectors, type vectorOf } from './scripted-vectors.ts';

export interface Script extends EngineScript, NodeDoor {
  readonly modelDigest: string;
  readonly nodeId?: string;
  readonly contextLength?: number;
  readonly poolTokens?: number;
  readonly maxRunning?: number;
  readonly layers?: number;
  /** Between two steps; 0 goes as fast as the credits. */
  readonly stepMs?: number;
  /** What becomes of a report on its way: each name is a way a network fails. */
  readonly fate?: () => 'arrives' | 'request lost' | 'response lost' | 'comes twice';
  /** Numbers of a vector, of a model that makes some; 48 where unset. */
  readonly vectorSize?: number;
  /** Another than what all others make of an input. */
  readonly vectorOf?: typeof vectorOf;
  /** What it answers of adapters: a status code, 0 where it has them; it answers nothing without. */
  readonly adapterCode?: number;
  /** Generates nothing by itself. */
  readonly manual?: boolean;
  /** What a flush of its prefix cache gives back; it answers none without. */
  readonly freedTokens?: number;
  /** What it tells of its kernels once it is asked; it answers no profile without. */
  readonly profiled?: Omit<MessageInitShape<typeof ProfiledSchema>, 'profileId'>;
  /** Fields of the AttachRequest that differ. */
  readonly attach?: Partial<Omit<AttachRequest, '$typeName' | '$unknown'>>;
}

/** A node that speaks the real protocol over real HTTP, and answers by a function instead of a model. */
export class ScriptedNode {
  /** All commands seen, pings and repeats included. */
  readonly commands: NodeCommand[] = [];
  welcome: Welcome | undefined;
  /** How the last stream ended. */
  streamError: ConnectError | undefined;
  reportError: ConnectError | undefined;
  load: MessageInitShape<typeof NodeLoadSchema> | undefined;
  private readonly script: Script;
  readonly client: Client<typeof NodeRelay>;
  private readonly engine: ScriptedEngine;
  private readonly vectors: ScriptedVectors;
  private readonly events: NodeEvent[] = [];
  private stream = new AbortController();
  private lastCommandSeq = 0n;
  private reportSeq = 0n;
  private dead = false;
  private reporting: Promise<void> | undefined;
  private stepTimer: NodeJS.Timeout | undefined;
  private heartbeat: NodeJS.Timeout | undefined;
  private waiters: (() => void)[] = [];

  private constructor(script: Script) {
    this.script = script;
    this.engine = new ScriptedEngine(script);
    this.vectors = new ScriptedVectors(script.vectorSize ?? 48, script.vectorOf);
    this.client = nodeClient(script);
  }

  /** Attaches and waits for the welcome. Rejects as the relay refuses. */
  static async attach(script: Script): Promise<ScriptedNode> {
    const node = new ScriptedNode(script);
    await node.open(false);
    return node;
  }

  /** Drops the stream and opens it again, resuming the session. */
  async reconnect(): Promise<void> {
    this.stream.abort();
    await this.open(true);
  }

  /** Drops the stream only: the relay must find out. */
  dropStream(): void {
    this.stream.abort();
  }

  /** Vanishes without a word, as a killed browser does. */
  kill(): void {
    this.dead = true;
    clearTimeout(this.stepTimer);
    clearInterval(this.heartbeat);
    this.stream.abort();
  }

  async detach(): Promise<void> {
    await this.client.detach({ ...this.fence(), reason: 'test' });
    this.kill();
  }

  /** Resolves once `holds`; it is checked after every command and report. Rejects after `ms`. */
  async until(holds: () => boolean, ms = 15_000): Promise<void> {
    const late = performance.now() + ms;
    while (!holds()) {
      const left = late - performance.now();
      if (left <= 0) throw new Error(`not within ${ms} ms: ${holds}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.waiters.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  commandsOf<C extends NonNullable<NodeCommand['command']['case']>>(
    which: C,
  ): Extract<NodeCommand['command'], { case: C }>['value'][] {
    return this.commands.filter((one) => one.command.case === which).map((one) => one.command.value as never);
  }

  /** Jobs asked for, the first time each came. */
  get jobs(): Generate[] {
    const jobs = new Map(this.commandsOf('generate').map((job) => [job.jobId, job]));
    return [...jobs.values()];
  }

  /** The same of vectors. */
  get embeds(): Embed[] {
    const jobs = new Map(this.commandsOf('embed').map((job) => [job.jobId, job]));
    return [...jobs.values()];
  }

  outputLength(jobId: bigint, index = 0): number {
    return this.engine.outputLength(jobId, index);
  }

  fence() {
    return {
      sessionToken: this.welcome?.sessionToken ?? '',
      relayEpoch: this.welcome?.relayEpoch ?? 0n,
      sessionEpoch: this.welcome?.sessionEpoch ?? 0n,
    };
  }

  /** Adds events by hand, and reports. */
  tell(...events: MessageInitShape<typeof NodeEventSchema>[]): Promise<void> {
    this.events.push(...events.map((event) => create(NodeEventSchema, event)));
    return this.report();
  }

  private async open(resume: boolean): Promise<void> {
    const { script } = this;
    const stream = new AbortController();
    this.stream = stream;
    const before = this.welcome;
    const commands = this.client.attach(
      {
        protocolVersion: 1,
        nodeId: script.nodeId ?? `node-${Math.random().toString(36).slice(2, 12).padEnd(10, '0')}`,
        modelDigest: script.modelDigest,
        precision: Precision.EXACT,
        kvType: KvType.F32,
        layers: { from: 0, to: script.layers ?? 5 },
        contextLength: script.contextLength ?? 512,
        poolTokens: script.poolTokens ?? 4096,
        maxRunning: script.maxRunning ?? 64,
        ...script.attach,
        ...(resume && before ? { resume: { ...this.fence(), lastCommandSeq: this.lastCommandSeq } } : {}),
      },
      { signal: stream.signal },
    );
    const welcomed = new Promise<void>((resolve, reject) => {
      void this.read(commands, stream, resolve, reject);
    });
    await welcomed;
    clearInterval(this.heartbeat);
    this.heartbeat = setInterval(() => void this.report(true), this.welcome?.heartbeatMs ?? 1000);
  }

  private async read(
    commands: AsyncIterable<NodeCommand>,
    stream: AbortController,
    welcomed: () => void,
    refused: (error: unknown) => void,
  ): Promise<void> {
    try {
      for await (const command of commands) {
        if (stream !== this.stream || this.dead) return;
        this.commands.push(command);
        this.obey(command);
        if (command.command.case === 'welcome') welcomed();
        this.wake();
      }
    } catch (error) {
      if (stream === this.stream && !stream.signal.aborted) this.streamError = ConnectError.from(error);
      refused(error);
    } finally {
      this.wake();
    }
  }

  private obey(command: NodeCommand): void {
    if (command.seq > 0n) {
      // Exactly once and in order, whatever was sent again.
      if (command.seq !== this.lastCommandSeq + 1n)
        throw new Error(`command ${command.seq} after ${this.lastCommandSeq}`);
      this.lastCommandSeq = command.seq;
    }
    switch (command.command.case) {
      case 'welcome':
        this.welcome = command.command.value;
        break;
      case 'generate':
        this.engine.submit(command.command.value);
        break;
      case 'loadAdapter':
      case 'unloadAdapter': {
        const { requestId } = command.command.value;
        const { adapterCode: code } = this.script;
        const message = code ? 'no room' : '';
        if (code !== undefined) void this.tell({ event: { case: 'adapterDone', value: { requestId, code, message } } });
        break;
      }
      case 'embed':
        this.vectors.submit(command.command.value);
        break;
      case 'grant':
        this.engine.grant(command.command.value);
        break;
      case 'abort':
        this.engine.abort(command.command.value.jobId);
        this.vectors.abort(command.command.value.jobId);
        break;
      case 'flushCache': {
        const { flushId } = command.command.value;
        const { freedTokens } = this.script;
        if (freedTokens !== undefined)
          void this.tell({ event: { case: 'cacheFlushed', value: { flushId, freedTokens } } });
        break;
      }
      case 'profile': {
        const { profileId } = command.command.value;
        const { profiled } = this.script;
        if (profiled !== undefined)
          void this.tell({ event: { case: 'profiled', value: { ...profiled, profileId } as never } });
        break;
      }
      default:
    }
    this.schedule();
  }

  private schedule(): void {
    if (this.stepTimer || this.dead || this.script.manual) return;
    this.stepTimer = setTimeout(() => {
      this.stepTimer = undefined;
      const made = [...this.engine.step(), ...this.vectors.step()];
      this.events.push(...made);
      if (made.length > 0) void this.report().then(() => this.schedule());
    }, this.script.stepMs ?? 0);
  }

  /** Sends what is to be told, again until it is acknowledged; at most one report is under way. */
  async report(heartbeat = false): Promise<void> {
    while (this.reporting) await this.reporting;
    if (this.dead || (this.events.length === 0 && !heartbeat)) return;
    this.reporting = this.deliver().finally(() => {
      this.reporting = undefined;
      this.wake();
    });
    await this.reporting;
  }

  private async deliver(): Promise<void> {
    const events = this.events.splice(0);
    const seq = events.length > 0 ? ++this.reportSeq : 0n;
    for (let attempt = 0; attempt < 100 && !this.dead; attempt++) {
      const request = {
        ...this.fence(),
        seq,
        lastCommandSeq: this.lastCommandSeq,
        events,
        ...(this.load ? { load: this.load } : {}),
      };
      const fate = this.script.fate?.() ?? 'arrives';
      try {
        if (fate === 'request lost') throw new ConnectError('lost', Code.Unavailable);
        await this.client.report(request);
        if (fate === 'comes twice') await this.client.report(request);
        if (fate === 'response lost') throw new ConnectError('lost', Code.Unavailable);
        return;
      } catch (error) {
        const failure = ConnectError.from(error);
        // An epoch that changed under way is no end: the same report goes again with the newer one.
        const stale = failure.code === Code.Aborted && request.sessionEpoch !== this.welcome?.sessionEpoch;
        if (failure.code !== Code.Unavailable && !stale) {
          this.reportError = failure;
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    }
  }

  private wake(): void {
    const { waiters } = this;
    this.waiters = [];
    for (const waiter of waiters) waiter();
  }
}
