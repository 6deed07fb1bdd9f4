import { settledWithin } from './settled-within.ts';

/** A step that takes longer never ends: the GPU hangs. */
const STEP_TIMEOUT_MS = 120_000;

/** What a step that the GPU has gives, or a rejection that says that it hangs. */
export function withinStepBound<T>(step: Promise<T>): Promise<T> {
  return settledWithin(STEP_TIMEOUT_MS, step, `a step took over ${STEP_TIMEOUT_MS / 1000} s: the GPU hangs`);
}
