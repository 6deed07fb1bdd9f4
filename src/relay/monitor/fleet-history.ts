import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type HistoryPoint,
  HistoryPointSchema,
  type LatenciesSchema,
  type PercentilesSchema,
} from '../../contract/gen/fleet_monitor_pb.ts';
import type { AuditOutcome } from '../audit/audit-counts.ts';
import type { Job } from '../job.ts';
import type { NodeLink } from '../node-link.ts';
import { LatencySketch } from './latency-sketch.ts';

/** A point is added every so often. */
export const INTERVAL_MS = 5_000;
/** An hour of them. */
export const MOST_POINTS = 720;
/** Intervals of the percentiles over the last minute. */
const WINDOW = 12;

export interface HistorySource {
  /** Nodes that serve. */
  readonly serving: () => readonly NodeLink[];
  /** Requests that wait at the relay. */
  readonly waiting: () => number;
  /** As `performance.now()`. */
  readonly now?: () => number;
}

type LatencyName = Exclude<keyof MessageInitShape<typeof LatenciesSchema>, '$typeName' | '$unknown'>;
const LATENCIES = ['firstToken', 'betweenTokens', 'whole'] as const satisfies readonly LatencyName[];
type Sketches = Readonly<Record<(typeof LATENCIES)[number], LatencySketch>>;

/** What was counted since the last point; `promptTokens` and `cachedTokens` of requests that ended. */
interface Counts {
  tokens: number;
  promptTokens: number;
  cachedTokens: number;
  requests: number;
  aborted: number;
  failovers: number;
  auditsPassed: number;
  auditsFailed: number;
  auditsOpen: number;
}

/**
 * What the relay counted over the last hour, in bounded memory: a ring of points, and sketches of the latencies of the
 * last minute. It holds numbers only.
 */
export class FleetHistory {
  private readonly ring: (HistoryPoint | undefined)[] = Array.from({ length: MOST_POINTS });
  private last = 0;
  private counts: Counts = noCounts();
  /** Since the start, up to the last point. */
  private before: Counts = noCounts();
  /** By interval; the current one's is at `last % WINDOW`. */
  private readonly sketches: readonly Sketches[] = Array.from({ length: WINDOW }, newSketches);
  private lastAt: number;
  private readonly source: HistorySource;
  private readonly now: () => number;
  private timer: NodeJS.Timeout | undefined;

  constructor(source: HistorySource) {
    this.source = source;
    this.now = source.now ?? (() => performance.now());
    this.lastAt = this.now();
  }

  /** Adds points by itself, until it is closed. */
  start(): void {
    this.timer ??= setInterval(() => this.addPoint(), INTERVAL_MS);
    this.timer.unref();
  }

  /** Of one sample; `ms` since it could make them, undefined for its first at a node. */
  tokens(count: number, ms: number | undefined): void {
    this.counts.tokens += count;
    if (ms !== undefined) this.current.betweenTokens.add(ms / count, count);
  }

  firstToken(job: Job): void {
    this.current.firstToken.add(this.now() - job.arrivedAt);
  }

  jobEnded(job: Job): void {
    const { counts } = this;
    counts.requests++;
    // How long one lasted that came to nothing is no latency of an answer.
    if (job.whole) this.current.whole.add(this.now() - job.arrivedAt);
    else counts.aborted++;
    counts.promptTokens += job.request.inputIds.length;
    counts.cachedTokens += job.cachedTokens ?? 0;
  }

  failedOver(jobs: number): void {
    this.counts.failovers += jobs;
  }

  audited(outcome: AuditOutcome): void {
    if (outcome === 'passes') this.counts.auditsPassed++;
    else if (outcome === 'fails') this.counts.auditsFailed++;
    else if (outcome === 'open') this.counts.auditsOpen++;
  }

  /** Points after the one of this number, the oldest first. */
  after(number: number): HistoryPoint[] {
    const count = Math.max(0, Math.min(this.last - number, this.last, MOST_POINTS));
    return Array.from({ length: count }, (_, at) => this.ring[(this.last - count + at) % MOST_POINTS]!);
  }

  /** Over the last minute, of which the current interval may have just begun. */
  get latencies(): MessageInitShape<typeof LatenciesSchema> {
    const sums = newSketches();
    for (const sketches of this.sketches) for (const name of LATENCIES) sums[name].addAll(sketches[name]);
    return latenciesOf(sums);
  }

  /** Since the start. */
  get totals(): Readonly<Counts> {
    return summed(this.before, this.counts);
  }

  close(): void {
    clearInterval(this.timer);
  }

  /** Ends the current interval. */
  addPoint(): void {
    const { counts, lastAt } = this;
    const now = this.now();
    // A clock that stands still gives no rate.
    const lengthMs = Math.max(now - lastAt, 1);
    const nodes = this.source.serving();
    this.ring[this.last % MOST_POINTS] = create(HistoryPointSchema, {
      number: this.last + 1,
      atMs: now,
      lengthMs,
      nodes: nodes.length,
      running: nodes.reduce((sum, link) => sum + link.runningSamples, 0),
      waiting: this.source.waiting(),
      ...usageOf(nodes),
      tokensPerSecond: (1000 * counts.tokens) / lengthMs,
      ...(counts.promptTokens === 0 ? {} : { cacheHitRate: counts.cachedTokens / counts.promptTokens }),
      requests: counts.requests,
      aborted: counts.aborted,
      failovers: counts.failovers,
      auditsPassed: counts.auditsPassed,
      auditsFailed: counts.auditsFailed,
      latencies: latenciesOf(this.current),
    });
    this.last++;
    this.lastAt = now;
    this.before = summed(this.before, counts);
    this.counts = noCounts();
    for (const name of LATENCIES) this.current[name].clear();
  }

  private get current(): Sketches {
    return this.sketches[this.last % WINDOW]!;
  }
}

function noCounts(): Counts {
  return {
    ...{ tokens: 0, promptTokens: 0, cachedTokens: 0, requests: 0, aborted: 0 },
    ...{ failovers: 0, auditsPassed: 0, auditsFailed: 0, auditsOpen: 0 },
  };
}

function summed(a: Readonly<Counts>, b: Readonly<Counts>): Counts {
  const sum = noCounts();
  for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] = a[name] + b[name];
  return sum;
}

function newSketches(): Sketches {
  return { firstToken: new LatencySketch(), betweenTokens: new LatencySketch(), whole: new LatencySketch() };
}

function latenciesOf(sketches: Sketches): MessageInitShape<typeof LatenciesSchema> {
  const all = LATENCIES.map((name) => [name, percentilesOf(sketches[name])] as const);
  return Object.fromEntries(all.filter(([, percentiles]) => percentiles !== undefined));
}

function percentilesOf(sketch: LatencySketch): MessageInitShape<typeof PercentilesSchema> | undefined {
  const [p50, p90, p99] = [0.5, 0.9, 0.99].map((q) => sketch.quantile(q));
  return p50 === undefined || p90 === undefined || p99 === undefined
    ? undefined
    : { count: sketch.count, p50, p90, p99 };
}

function usageOf(nodes: readonly NodeLink[]): { readonly tokenUsage?: number } {
  let [used, all] = [0, 0];
  for (const { load, facts } of nodes) {
    if (load?.usedTokens === undefined) continue;
    used += load.usedTokens;
    all += facts.poolTokens;
  }
  return all === 0 ? {} : { tokenUsage: used / all };
}
