import type { KernelResult } from './self-test.ts';

const FORM = 1;
/** More than any model has; a record with more is no record. */
const MOST_ENTRIES = 10_000;

/** What is kept of self-test and tuner for an adapter, a build and a model's shapes. */
export interface TunerRecord {
  /** Everything that it depends on; see tunerKey. */
  readonly key: string;
  /** The name of each product's choice, by productKey. */
  readonly choices: Readonly<Record<string, string>>;
  readonly results: readonly KernelResult[];
  /** Test and tuner came to their end: nothing is left to do. */
  readonly whole: boolean;
}

export function encodeRecord(record: TunerRecord): string {
  return JSON.stringify({ form: FORM, ...record });
}

/** The record that `text` is, if it is one for `key`: an older one, or one that anything damaged, is none. */
export function decodeRecord(text: string | undefined, key: string): TunerRecord | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
  if (!isObject(value) || value.form !== FORM || value.key !== key || typeof value.whole !== 'boolean')
    return undefined;
  const { choices, results, whole } = value;
  if (!isObject(choices) || !Array.isArray(results)) return undefined;
  if (results.length > MOST_ENTRIES || Object.keys(choices).length > MOST_ENTRIES) return undefined;
  if (!Object.values(choices).every((name) => typeof name === 'string')) return undefined;
  if (!results.every(isResult)) return undefined;
  return { key, choices: choices as Record<string, string>, results, whole };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isResult(value: unknown): value is KernelResult {
  if (!isObject(value)) return false;
  const { name, why, lost, ms } = value;
  if (typeof name !== 'string' || !isDuration(ms)) return false;
  return (why === undefined || typeof why === 'string') && (lost === undefined || lost === true);
}

function isDuration(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}
