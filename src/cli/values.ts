import { InvalidArgumentError } from 'commander';
import { MAX_NODES } from '../relay/options.ts';

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** A TCP port; 0 lets the system choose one. */
export function parsePort(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535) {
    throw new InvalidArgumentError('a port is a whole number from 0 to 65535.');
  }
  return Number(text);
}

/** A part of a whole. */
export function parseShare(text: string): number {
  const share = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || share > 1) throw new InvalidArgumentError('it must be a number from 0 to 1.');
  return share;
}

export function parseHostPort(text: string): HostPort {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:/[\]]+)):(\d{1,5})$/.exec(text);
  if (!match || Number(match[3]) > 65_535 || Number(match[3]) === 0) {
    throw new InvalidArgumentError('it must be HOST:PORT, such as 127.0.0.1:30001.');
  }
  return { host: (match[1] ?? match[2])!, port: Number(match[3]) };
}

/** For a URL: an IPv6 address in brackets. */
export function formatHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

export function parseWebUrl(text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new InvalidArgumentError('it must be a URL, such as http://127.0.0.1:8080.');
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new InvalidArgumentError('it must be an http or https URL, such as http://127.0.0.1:8080.');
  }
  return url;
}

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000 };

/** `15`, `15s`, `500ms` or `2m`, in milliseconds; a bare number is seconds. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m)?$/.exec(text);
  const ms = match ? Math.round(Number(match[1]) * UNITS[match[2] ?? 's']!) : Number.NaN;
  if (!Number.isFinite(ms) || ms > 86_400_000) {
    throw new InvalidArgumentError('a duration is seconds, or a number with ms, s or m, up to a day.');
  }
  return ms;
}

/** As parseDuration, but not nothing. */
export function parsePositiveDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms < 1) throw new InvalidArgumentError('the duration must be longer than 0.');
  return ms;
}

export function parseTemperature(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0) {
    throw new InvalidArgumentError('it must be a number of 0 or more.');
  }
  return value;
}

export function parseCount(text: string): number {
  if (!/^\d+$/.test(text) || Number(text) > 0x7fff_ffff) {
    throw new InvalidArgumentError('it must be a whole number from 0 to 2147483647.');
  }
  return Number(text);
}

export function parsePositive(text: string): number {
  if (!/^\d+$/.test(text) || Number(text) < 1 || Number(text) > 0x7fff_ffff) {
    throw new InvalidArgumentError('it must be a whole number from 1 to 2147483647.');
  }
  return Number(text);
}

export function parseRanks(text: string): number {
  if (!/^\d{1,4}$/.test(text) || Number(text) < 1 || Number(text) > MAX_NODES) {
    throw new InvalidArgumentError(`it must be a whole number from 1 to ${MAX_NODES}.`);
  }
  return Number(text);
}

export function parseSeed(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new InvalidArgumentError('a seed is a whole number from 0 to 9007199254740991.');
  }
  return value;
}

export function parseGeneration(text: string): 1 | 2 {
  if (text === '1') return 1;
  if (text === '2') return 2;
  throw new InvalidArgumentError('a generation is 1 or 2.');
}
