import { type Client, Code, ConnectError } from '@connectrpc/connect';
import { batch, signal } from '@preact/signals';
import type {
  FleetMonitor,
  GetHistoryResponse,
  ListNodesResponse,
  ListRequestsResponse,
} from '../../contract/gen/fleet_monitor_pb.ts';
import type { GetLoadsResponse, SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { HistoryColumns } from './history-columns.ts';

export interface FleetClients {
  readonly scheduler: Client<typeof SglangScheduler>;
  readonly monitor: Client<typeof FleetMonitor>;
}

export type WatchState =
  | { readonly name: 'loading' | 'live' | 'paused' }
  /** What was told before stays. */
  | { readonly name: 'unreachable'; readonly why: string }
  /** The relay asks for a token, or for another. */
  | { readonly name: 'refused'; readonly why: string; readonly code: Code };

export interface WatchTimes {
  /** From the end of a poll to the next, in milliseconds. */
  readonly pollMs: number;
  /** An rpc takes no longer. */
  readonly boundMs: number;
  /** After polls that failed: doubled each time, up to this. */
  readonly mostWaitMs: number;
}

const TIMES: WatchTimes = { pollMs: 1_000, boundMs: 8_000, mostWaitMs: 15_000 };
/** Polls from one ListNodes and ListRequests to the next, and from one GetHistory. */
const LISTS_EVERY = 2;
const HISTORY_EVERY = 5;
const REQUESTS = 25;

/**
 * What the relay tells of its fleet, asked again and again: one rpc at a time, so that it takes one connection, and each
 * with a bound. All that a poll brings is shown at once. GetLoads is for every client; the rest for operators.
 */
export class FleetWatch {
  readonly state = signal<WatchState>({ name: 'loading' });
  readonly loads = signal<GetLoadsResponse | undefined>(undefined);
  readonly nodes = signal<ListNodesResponse | undefined>(undefined);
  readonly requests = signal<ListRequestsResponse | undefined>(undefined);
  /** The last answer, without its points: `columns` holds those. */
  readonly history = signal<Omit<GetHistoryResponse, 'points'> | undefined>(undefined);
  /** Grows as `columns` changes. */
  readonly revision = signal(0);
  /** False: the viewer may see GetLoads only. Undefined: not known yet. */
  readonly operator = signal<boolean | undefined>(undefined);
  readonly columns = new HistoryColumns();
  private readonly clients: () => FleetClients;
  private readonly times: WatchTimes;
  private running: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private polls = 0;
  private failures = 0;

  constructor(clients: () => FleetClients, times: WatchTimes = TIMES) {
    this.clients = clients;
    this.times = times;
  }

  /** Polls from now on; harmless when it does already. */
  start(): void {
    if (this.running) return;
    this.running = new AbortController();
    this.polls = 0;
    this.failures = 0;
    this.state.value = { name: 'loading' };
    void this.poll(this.running.signal);
  }

  /** Polls no more; what was told stays. */
  stop(paused = false): void {
    this.running?.abort();
    this.running = undefined;
    clearTimeout(this.timer);
    if (paused) this.state.value = { name: 'paused' };
  }

  /** Begins anew. */
  restart(): void {
    this.forget();
    this.start();
  }

  /** Stops, and is as new: what was told was told to somebody else. */
  forget(): void {
    this.stop();
    batch(() => {
      for (const told of [this.loads, this.nodes, this.requests, this.history, this.operator]) told.value = undefined;
      this.columns.clear();
      this.revision.value++;
      this.state.value = { name: 'loading' };
    });
  }

  private async poll(stopped: AbortSignal): Promise<void> {
    try {
      const show = await this.ask(stopped);
      if (stopped.aborted) return;
      this.failures = 0;
      this.polls++;
      batch(() => {
        show();
        if (this.state.value.name !== 'live') this.state.value = { name: 'live' };
      });
    } catch (error) {
      if (stopped.aborted) return;
      const { code, rawMessage } = ConnectError.from(error);
      if (code === Code.Unauthenticated || code === Code.PermissionDenied) {
        this.stop();
        this.state.value = { name: 'refused', code, why: rawMessage };
        return;
      }
      this.failures++;
      this.state.value = { name: 'unreachable', why: rawMessage };
    }
    const { pollMs, mostWaitMs } = this.times;
    const wait = Math.min(mostWaitMs, pollMs * 2 ** Math.min(this.failures, 10));
    this.timer = setTimeout(() => void this.poll(stopped), this.failures === 0 ? pollMs : wait);
  }

  /** One rpc after the other. Returns what shows their answers. */
  private async ask(signal: AbortSignal): Promise<() => void> {
    const { scheduler, monitor } = this.clients();
    const options = { signal, timeoutMs: this.times.boundMs };
    const loads = await scheduler.getLoads({ include: ['core', 'memory'] }, options);
    const lists = this.operator.value !== false && this.polls % LISTS_EVERY === 0;
    const nodes = lists ? await unlessDenied(monitor.listNodes({}, options)) : undefined;
    const operator = nodes === 'denied' ? false : nodes ? true : this.operator.value;
    const requests = lists && operator ? await monitor.listRequests({ limit: REQUESTS }, options) : undefined;
    const due = operator && this.polls % HISTORY_EVERY === 0;
    const history = due ? await monitor.getHistory(this.columns.known, options) : undefined;
    return () => {
      this.loads.value = loads;
      this.operator.value = operator;
      if (nodes && nodes !== 'denied') this.nodes.value = nodes;
      if (requests) this.requests.value = requests;
      if (!history) return;
      if (this.columns.take(history, Date.now())) this.revision.value++;
      const { points: _, ...rest } = history;
      this.history.value = rest;
    };
  }
}

async function unlessDenied<T>(asked: Promise<T>): Promise<T | 'denied'> {
  try {
    return await asked;
  } catch (error) {
    if (ConnectError.from(error).code === Code.PermissionDenied) return 'denied';
    throw error;
  }
}
