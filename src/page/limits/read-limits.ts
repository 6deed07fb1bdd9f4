/** What the page's slider takes, in percent. */
export const SHARE_RANGE = { min: 5, max: 100, step: 5 } as const;

/** When, and for how much of its time, this page's node may have the GPU. */
export interface Limits {
  /** From 0.05 to 1. */
  readonly gpuShare: number;
  /** Only while nobody uses this computer. */
  readonly onlyIdle: boolean;
  readonly onlyPluggedIn: boolean;
}

/** What was kept, as far as it is what a page keeps. */
export function readLimits(text: string | null): Limits {
  let kept: Partial<Record<keyof Limits, unknown>> = {};
  try {
    kept = (JSON.parse(text ?? '{}') as typeof kept | null) ?? {};
  } catch {
    // Of no page of this kind.
  }
  const { gpuShare, onlyIdle, onlyPluggedIn } = kept;
  const whole = typeof gpuShare === 'number' && gpuShare >= SHARE_RANGE.min / 100 && gpuShare <= 1;
  return { gpuShare: whole ? gpuShare : 1, onlyIdle: onlyIdle === true, onlyPluggedIn: onlyPluggedIn === true };
}
