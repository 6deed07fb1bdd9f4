import type { KernelReport } from '../../src/engine/kernel-report.ts';

/** What a run gives: plain data, so that a Web Worker can hand it over and a file can keep it. */
export interface BenchReport {
  readonly model: string;
  readonly weights: string;
  readonly adapter: string;
  /** A software adapter: bars for memory-bound adapters don't apply. */
  readonly software: boolean;
  readonly roofline: Roofline;
  readonly tables: readonly BenchTable[];
  /** What the self-test and the tuner said of its kernels. */
  readonly kernels?: KernelReport;
  /** What wasn't measured, and why. */
  readonly leftOut?: readonly string[];
}

/** What this adapter can do at most, as measured in this run. */
export interface Roofline {
  /** Bytes read and written by a copy kernel, 10⁹ a second. */
  readonly copyGBs: number;
  /** f32 multiply-adds count two, 10⁹ a second. */
  readonly gflops: number;
}

export interface BenchTable {
  readonly name: string;
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly BenchRow[];
}

export interface BenchRow {
  readonly cells: readonly string[];
  /** Undefined: no bar is set for this line. */
  readonly holds: boolean | undefined;
  readonly bar: string;
  /** The figures behind the cells. */
  readonly data: Readonly<Record<string, number | undefined>>;
}

export const TABLE_NAMES = [
  'decode',
  'prefix',
  'context',
  'attention',
  'host',
  'prefill',
  'sampling',
  'grammar',
  'speculation',
  'trace',
  'lora',
  'embed',
] as const;
export type TableName = (typeof TABLE_NAMES)[number];

/** The table as text, its columns aligned, the bar's verdict at the end of each line. */
export function printTable({ title, columns, rows }: BenchTable): string {
  const lines = [[...columns, 'bar'], ...rows.map((row) => [...row.cells, verdict(row)])];
  const widths = lines[0]!.map((_, i) => Math.max(...lines.map((line) => line[i]!.length)));
  const text = lines.map((line) =>
    line.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '),
  );
  return ['', title, ...text].join('\n');
}

export function verdict({ holds, bar }: BenchRow): string {
  if (holds === undefined) return bar === '' ? '–' : `– (${bar})`;
  return `${holds ? 'holds' : 'MISS'} (${bar})`;
}

export function fixed(value: number | undefined, digits = 2): string {
  return value === undefined || !Number.isFinite(value) ? '–' : value.toFixed(digits);
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}
