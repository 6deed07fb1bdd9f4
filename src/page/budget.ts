import { signal } from '@preact/signals';
import type { EngineBudget } from '../node/messages.ts';

const KEY = 'shoal.budget';
const DEFAULT: EngineBudget = { kvBytes: 256 * 2 ** 20, maxRunning: 64 };
/** What the fields of the page take. */
export const BUDGET_RANGE = { kvMebibytes: { min: 1, max: 65_536 }, maxRunning: { min: 1, max: 1_024 } } as const;

/** How much of the GPU the user lends; kept for the next visit, and counts from the next join on. */
export const budget = signal<EngineBudget>(read());

export function setBudget(next: EngineBudget): void {
  budget.value = next;
  localStorage.setItem(KEY, JSON.stringify(next));
}

function read(): EngineBudget {
  try {
    const { kvBytes, maxRunning } = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<EngineBudget>;
    const { kvMebibytes: mebibytes, maxRunning: running } = BUDGET_RANGE;
    return {
      kvBytes: inRange(kvBytes, mebibytes.min * 2 ** 20, mebibytes.max * 2 ** 20) ?? DEFAULT.kvBytes,
      maxRunning: inRange(maxRunning, running.min, running.max) ?? DEFAULT.maxRunning,
    };
  } catch {
    return DEFAULT;
  }
}

function inRange(value: unknown, min: number, max: number): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max
    ? (value as number)
    : undefined;
}
