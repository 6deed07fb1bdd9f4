import { percent as knownPercent } from '../format.ts';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** Of what is not known. */
export const UNKNOWN = '–';

export function count(value: number | bigint | undefined): string {
  if (value === undefined) return UNKNOWN;
  return (value < 100_000 ? whole : compact).format(value);
}

export function rate(value: number | undefined): string {
  if (value === undefined) return UNKNOWN;
  return value < 100 ? tenths.format(value) : count(value);
}

/** Of a part in [0, 1]. */
export function percent(part: number | undefined): string {
  return part === undefined ? UNKNOWN : knownPercent(part);
}

export function duration(ms: number | undefined): string {
  if (ms === undefined) return UNKNOWN;
  if (ms < 10) return `${tenths.format(Math.max(0, ms))} ms`;
  if (ms < 1_000) return `${whole.format(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1_000).toFixed(2)} s`;
  if (ms < 120_000) return `${tenths.format(ms / 1_000)} s`;
  return age(ms);
}

/** A longer one, in its largest unit or two. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
