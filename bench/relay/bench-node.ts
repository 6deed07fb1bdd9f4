import { Agent, request } from 'node:http';
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  Finished_Reason,
  type Generate,
  KvType,
  type NodeCommand,
  type NodeEventSchema,
  NodeRelay,
  Precision,
  ReportRequestSchema,
  type Welcome,
} from '../../src/contract/gen/node_relay_pb.ts';
import { pathOf } from '../../src/relay/testing/grpc-client.ts';
import { nodeClient } from '../../src/relay/testing/node-client.ts';
import { nowUs, numberOf } from './marks.ts';

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
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #running = new Map<string, Running>();
  readonly #stop = new AbortController();
  #events: MessageInitShape<typeof NodeEventSchema>[] = [];
  #welcome: Welcome | undefined;
  #seq = 0n;
  #commandSeq = 0n;
  #reporting = false;
  #timer: NodeJS.Timeout | undefined;
  /** Between two steps; 0 is as soon as the step before is reported. Undefined: after a first token none comes. */
  stepMs: number | undefined;

  constructor(options: BenchNodeOptions) {
    this.#options = options;
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
    setInterval(() => void this.#report(true), 3_000).unref();
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
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // Nodes don't step together.
    if (stepMs !== undefined) this.#timer = setTimeout(() => this.#step(), Math.random() * stepMs);
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

  #again(): void {
    if (this.stepMs === undefined || this.#timer !== undefined || (this.stepMs === 0 && this.#reporting)) return;
    for (const one of this.#running.values()) {
      if (one.made >= one.credit) continue;
      this.#timer = setTimeout(() => this.#step(), this.stepMs);
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
    this.#timer = undefined;
    for (const one of this.#running.values()) if (one.made < one.credit) this.#make(one);
    void this.#report();
    this.#again();
  }

  #make(one: Running): void {
    const { jobId, index, made } = one;
    one.births[made] = nowUs();
    const value = { offset: made, tokenIds: [3 + (made % 500)], cachedTokens: 0 };
    this.#events.push({ jobId, index, event: { case: 'tokens', value } });
    one.made++;
    if (one.made < one.most) return;
    this.#running.delete(`${jobId}/${index}`);
    this.#finish(one, Finished_Reason.LENGTH);
  }

  #finish({ jobId, index, made }: Running, reason: Finished_Reason): void {
    const value = { reason, completionTokens: made, cachedTokens: 0 };
    this.#events.push({ jobId, index, event: { case: 'finished', value } });
  }

  /** One at a time, as the protocol has it: what is made meanwhile goes with the next. */
  async #report(heartbeat = false): Promise<void> {
    if (this.#reporting || !this.#welcome || (this.#events.length === 0 && !heartbeat)) return;
    this.#reporting = true;
    const { sessionToken, relayEpoch, sessionEpoch } = this.#welcome;
    const events = this.#events.splice(0);
    const seq = events.length > 0 ? ++this.#seq : 0n;
    const fields = { sessionToken, relayEpoch, sessionEpoch, seq, lastCommandSeq: this.#commandSeq, events };
    const body = toBinary(ReportRequestSchema, create(ReportRequestSchema, fields));
    await this.#post(body);
    this.#reporting = false;
    void this.#report();
    this.#again();
  }

  #post(body: Uint8Array): Promise<void> {
    const headers = { 'content-type': 'application/proto', 'content-length': body.length };
    const path = pathOf(NodeRelay.method.report);
    const options = { host: '127.0.0.1', port: this.#options.webPort, path, method: 'POST', headers };
    return new Promise((resolve, reject) => {
      const asked = request({ ...options, agent: this.#agent }, (answer) => {
        if (answer.statusCode === 200) answer.resume();
        else answer.on('data', (bytes) => reject(new Error(`a report met ${answer.statusCode}: ${bytes}`)));
        answer.on('end', resolve);
      });
      asked.on('error', reject);
      asked.end(body);
    });
  }
}
