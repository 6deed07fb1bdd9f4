import { count, duration, percent, rate } from './format.ts';
import type { ColumnName, LatencyKey } from './history-columns.ts';

export interface ChartSeries {
  readonly label: string;
  readonly column: ColumnName;
  /** Of the design system's series colours. */
  readonly colour: 1 | 2 | 3 | 4 | 5 | 6;
  readonly dashed?: boolean;
}

export interface ChartSpec {
  readonly name: string;
  readonly title: string;
  /** What is counted, in a few words. */
  readonly unit: string;
  readonly series: readonly ChartSeries[];
  /** Of a value, for axis and readout. */
  readonly show: (value: number | undefined) => string;
  /** The scale's end is at least this. */
  readonly least: number;
  /** Counts of a point, rather than what is so at its end. */
  readonly counts?: boolean;
}

/** All of the fleet's charts, over the last hour. */
export const CHARTS: readonly ChartSpec[] = [
  {
    name: 'throughput',
    title: 'Throughput',
    unit: 'tokens a second',
    series: [{ label: 'tokens/s', column: 'tokensPerSecond', colour: 1 }],
    show: rate,
    least: 10,
  },
  {
    name: 'sequences',
    title: 'Work',
    unit: 'sequences, requests, nodes',
    series: [
      { label: 'running', column: 'running', colour: 1 },
      { label: 'waiting', column: 'waiting', colour: 2 },
      { label: 'nodes', column: 'nodes', colour: 6, dashed: true },
    ],
    show: count,
    least: 4,
  },
  {
    name: 'cache',
    title: 'Cache',
    unit: 'part of KV slots, of prompt tokens',
    series: [
      { label: 'KV in use', column: 'tokenUsage', colour: 3 },
      { label: 'prefix hits', column: 'cacheHitRate', colour: 4 },
    ],
    show: percent,
    least: 1,
  },
  latencyChart('firstToken', 'Time to first token'),
  latencyChart('betweenTokens', 'Between tokens'),
  latencyChart('whole', 'Whole request'),
  {
    name: 'requests',
    title: 'Requests',
    unit: 'ended in 5 s',
    series: [
      { label: 'ended', column: 'requests', colour: 1 },
      { label: 'not complete', column: 'aborted', colour: 5 },
    ],
    show: count,
    least: 4,
    counts: true,
  },
  {
    name: 'failovers',
    title: 'Failovers',
    unit: 'requests whose node was lost, in 5 s',
    series: [{ label: 'failovers', column: 'failovers', colour: 2 }],
    show: count,
    least: 4,
    counts: true,
  },
  {
    name: 'audits',
    title: 'Audits',
    unit: 'samples redrawn, in 5 s',
    series: [
      { label: 'passed', column: 'auditsPassed', colour: 4 },
      { label: 'failed', column: 'auditsFailed', colour: 5 },
    ],
    show: count,
    least: 4,
    counts: true,
  },
];

function latencyChart(key: LatencyKey, title: string): ChartSpec {
  return {
    name: key,
    title,
    unit: 'percentiles of 5 s',
    series: [
      { label: 'p50', column: `${key}P50`, colour: 1 },
      { label: 'p90', column: `${key}P90`, colour: 3 },
      { label: 'p99', column: `${key}P99`, colour: 2 },
    ],
    show: duration,
    least: 1,
  };
}
