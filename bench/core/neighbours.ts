import { percent } from './report.ts';

/** Context lengths of a table: 64, 128, 192 … most. */
export function contexts(most: number): number[] {
  return Array.from({ length: Math.floor(most / 64) }, (_, i) => (i + 1) * 64);
}

/** How far `value` is from its neighbour before it, as a share of the smaller one. */
export function difference(before: number, value: number): number {
  return Math.abs(value - before) / Math.min(value, before);
}

export const MOST_DIFFERENCE = 0.15;

/** Verdict on a line and the one before it; medians count, the best samples show what a busy machine did to them. */
export function neighbourBar(
  apart: number | undefined,
  bestApart: number | undefined,
): { readonly holds: boolean | undefined; readonly bar: string } {
  if (apart === undefined || bestApart === undefined) return { holds: undefined, bar: '' };
  const holds = apart <= MOST_DIFFERENCE;
  const best = holds ? '' : `; best samples ${percent(bestApart)} apart`;
  return { holds, bar: `≤ ${percent(MOST_DIFFERENCE)}${best}` };
}
