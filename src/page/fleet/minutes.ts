import type { ColumnName, HistoryColumns, LatencyKey } from './history-columns.ts';

const MINUTE_S = 60;

type Counted = 'requests' | 'aborted' | 'failovers' | 'auditsPassed' | 'auditsFailed';
type Gauge = 'running' | 'waiting' | 'nodes' | 'tokenUsage';

/** Milliseconds. */
interface MinuteLatency {
  readonly p50: number;
  readonly p99: number;
}

export interface Minute
  extends Readonly<Record<Counted, number>>,
    Readonly<Record<Gauge | 'tokensPerSecond' | 'cacheHitRate', number | undefined>>,
    Readonly<Record<LatencyKey, MinuteLatency | undefined>> {
  /** Seconds since 1970. */
  readonly until: number;
}

/** The history by whole minutes of the clock, the newest first, which may not be over; what no point knows is undefined. */
export function minutesOf(columns: HistoryColumns): Minute[] {
  const groups: number[][] = [];
  let current = Number.NaN;
  for (const [index, at] of columns.at.entries()) {
    // A point tells of the time before it.
    const minute = Math.ceil(at / MINUTE_S);
    if (minute !== current) groups.push([]);
    current = minute;
    groups.at(-1)!.push(index);
  }
  return groups.map((points) => minuteOf(columns, points)).reverse();
}

function minuteOf(columns: HistoryColumns, points: readonly number[]): Minute {
  const known = (name: ColumnName) => points.flatMap((at) => columns.column(name)[at] ?? []);
  const sum = (name: ColumnName) => known(name).reduce((total, value) => total + value, 0);
  const mean = (name: ColumnName) => (known(name).length === 0 ? undefined : sum(name) / known(name).length);
  const last = (name: ColumnName) => known(name).at(-1);
  return {
    until: columns.at[points.at(-1)!]!,
    ...{ requests: sum('requests'), aborted: sum('aborted'), failovers: sum('failovers') },
    ...{ auditsPassed: sum('auditsPassed'), auditsFailed: sum('auditsFailed') },
    ...{ running: last('running'), waiting: last('waiting'), nodes: last('nodes'), tokenUsage: last('tokenUsage') },
    ...{ tokensPerSecond: mean('tokensPerSecond'), cacheHitRate: mean('cacheHitRate') },
    firstToken: latencyOf(columns, points, 'firstToken'),
    betweenTokens: latencyOf(columns, points, 'betweenTokens'),
    whole: latencyOf(columns, points, 'whole'),
  };
}

/** p50: the mean of the points', by how much each counted. */
function latencyOf(columns: HistoryColumns, points: readonly number[], name: LatencyKey): MinuteLatency | undefined {
  let [counted, weighted, p99] = [0, 0, 0];
  for (const at of points) {
    const count = columns.column(`${name}Count`)[at];
    if (count == null) continue;
    counted += count;
    weighted += count * columns.column(`${name}P50`)[at]!;
    p99 = Math.max(p99, columns.column(`${name}P99`)[at]!);
  }
  return counted === 0 ? undefined : { p50: weighted / counted, p99 };
}
