import {
  Finished_Reason,
  type Generate,
  KvType,
  type NodeCommand,
  Precision,
  type Welcome,
} from '../../src/contract/gen/node_relay_pb.ts';
import { nodeClient } from '../../src/relay/testing/node-client.ts';
import { encodeReport, type SampleEvent } from './encode-report.ts';
import { nowUs, numberOf } from './marks.ts';
import { Pace } from './pace.ts';
import { ReportSocket } from './report-socket.ts';

export interface BenchNodeOptions {
  readonly webPort: number;
  readonly digest: string;
  readonly id: number;
  /** Of each request: when each of its tokens was made, in microseconds. */
  readonly births: Map<number, Float64Array>;
}

interface Running {
  readonly jobId: bigint;
  readonly index: number;
  readonly most: number;
  readonly births: Float64Array;
  credit: number;
  made: number;
}

/** A node that has no model: ids at once, all else as the protocol has it. Its own cost is small beside the relay's. */
export class BenchNode {
  readonly #options: BenchNodeOptions;
  readonly #reports: ReportSocket;
  readonly #running = new Map<string, Running>();
  readonly #stop = new AbortController();
  #events: SampleEvent[] = [];
  #welcome: Welcome | undefined;
  #seq = 0n;
  #commandSeq = 0n;
  #reporting = false;
  #pace: Pace | undefined;
  #stepping = false;
  /** Between two steps; 0 is as soon as the step before is reported. Undefined: after a first token none comes. */
  stepMs: number | undefined;

  constructor(options: BenchNodeOptions) {
    this.#options = options;
    this.#reports = new ReportSocket(options.webPort);
  }

  attach(): Promise<void> {
    const { webPort, digest, id } = this.#options;
    const commands = nodeClient({ webPort }).attach(
      {
        ...{ protocolVersion: 1, nodeId: `bench-node-${id}`, modelDigest: digest },
        ...{ precision: Precision.EXACT, kvType: KvType.F32, layers: { from: 0, to: 5 } },
        ...{ contextLength: 512, poolTokens: 16_384, maxRunning: 16 },
      },
      { signal: this.#stop.signal },
    );
    // Nodes don't come, and are not heard, together.
    setTimeout(() => setInterval(() => void this.#report(true), 3_000), Math.random() * 3_000);
    return new Promise((resolve, reject) => {
      const read = async () => {
        for await (const command of commands) {
          this.#obey(command);
          if (command.command.case === 'welcome') resolve();
        }
      };
      read().catch(reject);
    });
  }

  /** Makes tokens at this pace from now on. */
  pace(stepMs: number | undefined): void {
    this.stepMs = stepMs;
    this.#pace?.stop();
    this.#pace = stepMs ? new Pace(stepMs, () => this.#step()) : undefined;
    if (stepMs === 0) this.#step();
  }

  #obey({ seq, command }: NodeCommand): void {
    if (seq > 0n) this.#commandSeq = seq;
    if (command.case === 'welcome') this.#welcome = command.value;
    else if (command.case === 'generate') this.#begin(command.value);
    else if (command.case === 'grant') {
      const one = this.#running.get(`${command.value.jobId}/${command.value.index}`);
      if (one) one.credit = command.value.credit;
    } else if (command.case === 'abort') this.#abort(command.value.jobId);
    this.#again();
  }

  /** Without a pace: a step in the next turn, if there is something to make. */
  #again(): void {
    if (this.stepMs !== 0 || this.#stepping || this.#reporting) return;
    for (const one of this.#running.values()) {
      if (one.made >= one.credit) continue;
      this.#stepping = true;
      setImmediate(() => this.#step());
      return;
    }
  }

  #begin({ jobId, samples, sampling, inputIds }: Generate): void {
    const most = sampling?.maxNewTokens ?? 0;
    const births = new Float64Array(most);
    this.#options.births.set(numberOf(inputIds), births);
    for (const { index, credit } of samples) {
      const one = { jobId, index, most, births, credit, made: 0 };
      this.#running.set(`${jobId}/${index}`, one);
      if (this.stepMs === undefined) this.#make(one);
    }
    if (this.stepMs === undefined) void this.#report();
  }

  #abort(jobId: bigint): void {
    for (const [key, one] of this.#running) {
      if (one.jobId !== jobId) continue;
      this.#running.delete(key);
      this.#finish(one, Finished_Reason.ABORT);
    }
    void this.#report();
  }

  #step(): void {
    this.#stepping = false;
    for (const one of this.#running.values()) if (one.made < one.credit) this.#make(one);
    void this.#report();
    this.#again();
  }

  #make(one: Running): void {
    const { jobId, index, made } = one;
    one.births[made] = nowUs();
    this.#events.push({ jobId, index, offset: made, tokenId: 3 + (made % 500), reason: Finished_Reason.UNSPECIFIED });
    one.made++;
    if (one.made < one.most) return;
    this.#running.delete(`${jobId}/${index}`);
    this.#finish(one, Finished_Reason.LENGTH);
  }

  #finish({ jobId, index, made }: Running, reason: Finished_Reason): void {
    this.#events.push({ jobId, index, offset: made, tokenId: undefined, reason });
  }

  /** One at a time, as the protocol has it: what is made meanwhile goes with the next. */
  async #report(heartbeat = false): Promise<void> {
    if (this.#reporting || !this.#welcome || (this.#events.length === 0 && !heartbeat)) return;
    this.#reporting = true;
    const events = this.#events.splice(0);
    const seq = events.length > 0 ? ++this.#seq : 0n;
    await this.#reports.send(encodeReport(this.#welcome, seq, this.#commandSeq, events));
    this.#reporting = false;
    void this.#report();
    this.#again();
  }
}
