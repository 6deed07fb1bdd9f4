import { signal } from '@preact/signals';
import { type Limits, readLimits } from './read-limits.ts';

const KEY = 'shoal.limits';
/** As the user has set them; kept for the next visit. They count at once. */
export const limits = signal<Limits>(readLimits(localStorage.getItem(KEY)));

export function setLimits(change: Partial<Limits>): void {
  limits.value = { ...limits.value, ...change };
  localStorage.setItem(KEY, JSON.stringify(limits.value));
}
