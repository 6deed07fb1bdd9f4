/** For how many columns products are timed, and how much each counts: decoding alone, in company, and prefill. */
export const TIMED_COLUMNS = [
  { columns: 1, weight: 0.5 },
  { columns: 8, weight: 0.2 },
  { columns: 64, weight: 0.3 },
] as const;

/** How much faster than what is taken without a tuner another must be: less may be noise. */
const LEAST_GAIN = 0.05;

/** Milliseconds by number of columns. */
export type Times = ReadonlyMap<number, number>;

/** How long a choice takes beside another, 1 as long, over the columns that both were timed for. */
export function relativeTime(times: Times, base: Times): number {
  let sum = 0;
  let weights = 0;
  for (const { columns, weight } of TIMED_COLUMNS) {
    const [own, other] = [times.get(columns), base.get(columns)];
    if (own === undefined || other === undefined || !(other > 0)) continue;
    sum += (weight * own) / other;
    weights += weight;
  }
  return weights === 0 ? Number.POSITIVE_INFINITY : sum / weights;
}

/** Which of `measured` is taken; undefined: none of them is fast enough to leave `base`. The first of equals. */
export function fastest(base: Times, measured: readonly Times[]): number | undefined {
  let best: number | undefined;
  let least = 1 - LEAST_GAIN;
  measured.forEach((times, i) => {
    const time = relativeTime(times, base);
    if (time < least) [best, least] = [i, time];
  });
  return best;
}

/** Time for a tuner, and what it has learned of what things take. */
export class TunerBudget {
  readonly #now: () => number;
  readonly #end: number;
  /** Milliseconds a kernel, all it needs together; unknown at first. */
  #each: number | undefined;

  constructor(ms: number, now: () => number) {
    this.#now = now;
    this.#end = now() + ms;
  }

  get leftMs(): number {
    return Math.max(0, this.#end - this.#now());
  }

  /** `kernels` took `ms`. What was slow counts at once, what is fast only by and by. */
  learn(kernels: number, ms: number): void {
    if (kernels === 0) return;
    const each = ms / kernels;
    this.#each = this.#each === undefined ? each : Math.max(each, (this.#each + each) / 2);
  }

  /** Whether `kernels` more are likely to end in time. */
  fits(kernels: number): boolean {
    const left = this.leftMs;
    return left > 0 && (this.#each ?? 0) * kernels <= left;
  }
}

/**
 * What `work` gives; undefined where that takes longer than `ms`. What is being compiled can't be called off: it is waited
 * for no longer, and what becomes of it is nobody's concern.
 */
export async function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  work.catch(() => {});
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
