/** Relative error of a quantile. */
const ACCURACY = 0.025;
/** What is less or more counts as this, in milliseconds. */
const LEAST_MS = 0.01;
const MOST_MS = 3_600_000;

const GAMMA = (1 + ACCURACY) / (1 - ACCURACY);
const LOG_GAMMA = Math.log(GAMMA);
const BUCKETS = Math.ceil(Math.log(MOST_MS / LEAST_MS) / LOG_GAMMA) + 1;

/**
 * Quantiles of durations in fixed memory: counts in buckets whose bounds grow by a factor. Source: DDSketch,
 * https://arxiv.org/abs/1908.10693, §2.1.
 */
export class LatencySketch {
  private readonly counts = new Uint32Array(BUCKETS);
  private total = 0;

  get count(): number {
    return this.total;
  }

  /** `times` durations of `ms` each. */
  add(ms: number, times = 1): void {
    const bounded = Math.min(Math.max(ms, LEAST_MS), MOST_MS);
    this.counts[Math.ceil(Math.log(bounded / LEAST_MS) / LOG_GAMMA)]! += times;
    this.total += times;
  }

  addAll(other: LatencySketch): void {
    for (let at = 0; at < BUCKETS; at++) this.counts[at]! += other.counts[at]!;
    this.total += other.total;
  }

  clear(): void {
    this.counts.fill(0);
    this.total = 0;
  }

  /** In milliseconds: what a part `q` of them, in (0, 1], does not exceed. Undefined without any. */
  quantile(q: number): number | undefined {
    if (this.total === 0) return undefined;
    let left = Math.ceil(q * this.total);
    let at = 0;
    while (at < BUCKETS - 1) {
      left -= this.counts[at]!;
      if (left <= 0) break;
      at++;
    }
    // As far, in proportion, from either bound of its bucket.
    return (LEAST_MS * 2 * GAMMA ** at) / (GAMMA + 1);
  }
}
