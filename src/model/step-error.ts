/** A step that breaks the runner's limits, or contradicts itself; the message names the field. */
export class StepError extends Error {
  override readonly name = 'StepError';
}

/** True where `value` is an integer in [0, end). */
export function isIndex(value: number | undefined, end: number): boolean {
  return Number.isSafeInteger(value) && value! >= 0 && value! < end;
}
