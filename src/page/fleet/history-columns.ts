import type { GetHistoryResponse, HistoryPoint, Percentiles } from '../../contract/gen/fleet_monitor_pb.ts';

/** As many as the relay keeps: an hour. */
const MOST_POINTS = 720;

/** What each column is, of one point; undefined is unknown. */
const COLUMNS = {
  nodes: (point) => point.nodes,
  running: (point) => point.running,
  waiting: (point) => point.waiting,
  tokensPerSecond: (point) => point.tokensPerSecond,
  /** Parts in [0, 1]. */
  tokenUsage: (point) => point.tokenUsage,
  cacheHitRate: (point) => point.cacheHitRate,
  requests: (point) => point.requests,
  aborted: (point) => point.aborted,
  failovers: (point) => point.failovers,
  auditsPassed: (point) => point.auditsPassed,
  auditsFailed: (point) => point.auditsFailed,
  ...latency('firstToken'),
  ...latency('betweenTokens'),
  ...latency('whole'),
} as const satisfies Readonly<Record<string, (point: HistoryPoint) => number | undefined>>;

export type ColumnName = keyof typeof COLUMNS;
const NAMES = Object.keys(COLUMNS) as ColumnName[];

export type LatencyKey = 'firstToken' | 'betweenTokens' | 'whole';
type Measure = 'Count' | 'P50' | 'P90' | 'P99';
type LatencyColumns<K extends LatencyKey> = Record<`${K}${Measure}`, (point: HistoryPoint) => number | undefined>;

/** In milliseconds. */
function latency<K extends LatencyKey>(key: K): LatencyColumns<K> {
  const of = (measure: keyof Pick<Percentiles, 'count' | 'p50' | 'p90' | 'p99'>) => (point: HistoryPoint) =>
    point.latencies?.[key]?.[measure];
  return {
    [`${key}Count`]: of('count'),
    [`${key}P50`]: of('p50'),
    [`${key}P90`]: of('p90'),
    [`${key}P99`]: of('p99'),
  } as LatencyColumns<K>;
}

/** The relay's history column by column, as charts take it; at most an hour. */
export class HistoryColumns {
  /** Seconds since 1970, by this browser's clock. */
  readonly at: number[] = [];
  private readonly columns = Object.fromEntries(NAMES.map((name) => [name, []])) as unknown as Readonly<
    Record<ColumnName, (number | null)[]>
  >;
  private relayEpoch = 0n;
  private lastNumber = 0;
  /** Of this browser's clock to the relay's, in milliseconds: once for each start of the relay, so that points stay. */
  private offset = 0;

  /** What to ask the relay for. */
  get known(): { readonly relayEpoch: bigint; readonly after: number } {
    return { relayEpoch: this.relayEpoch, after: this.lastNumber };
  }

  get length(): number {
    return this.at.length;
  }

  column(name: ColumnName): (number | null)[] {
    return this.columns[name];
  }

  /** Takes an answer in; `now` is milliseconds since 1970. Returns whether anything changed. */
  take({ relayEpoch, nowMs, points }: GetHistoryResponse, now: number): boolean {
    const restarted = relayEpoch !== this.relayEpoch;
    if (restarted) {
      this.relayEpoch = relayEpoch;
      this.lastNumber = 0;
      this.offset = now - nowMs;
      this.drop(this.length);
    }
    for (const point of points) {
      if (point.number <= this.lastNumber) continue;
      this.lastNumber = point.number;
      this.at.push((point.atMs + this.offset) / 1_000);
      for (const name of NAMES) this.columns[name].push(COLUMNS[name](point) ?? null);
    }
    if (this.length > MOST_POINTS) this.drop(this.length - MOST_POINTS);
    return restarted || points.length > 0;
  }

  /** As new. */
  clear(): void {
    this.relayEpoch = 0n;
    this.lastNumber = 0;
    this.drop(this.length);
  }

  private drop(count: number): void {
    this.at.splice(0, count);
    for (const name of NAMES) this.columns[name].splice(0, count);
  }
}
