/** How long a node that lied is not taken again. */
export const PUT_OUT_MS = 60_000;

/** Ids that are remembered; anyone may attach under any. */
const MAX_REMEMBERED = 4_096;

/** How long a node isn't that an audit found to lie. */
export const AUDITED_OUT_MS = 3_600_000;

/** The ids of nodes that lied, each for a while: a page that goes wrong must not come back twice a second. */
export class PutOut {
  private readonly until = new Map<string, number>();
  private readonly now: () => number;
  private readonly ms: number;

  constructor(now: () => number = () => performance.now(), ms = PUT_OUT_MS) {
    this.now = now;
    this.ms = ms;
  }

  get remembered(): number {
    return this.until.size;
  }

  add(nodeId: string): void {
    // Last in the order, which is that of their ends.
    this.until.delete(nodeId);
    this.until.set(nodeId, this.now() + this.ms);
    for (const [oldest, end] of this.until) {
      if (end > this.now() && this.until.size <= MAX_REMEMBERED) break;
      this.until.delete(oldest);
    }
  }

  /** Milliseconds until it is taken again; 0 where it may come now. */
  leftMs(nodeId: string): number {
    const left = (this.until.get(nodeId) ?? 0) - this.now();
    if (left > 0) return left;
    this.until.delete(nodeId);
    return 0;
  }
}
