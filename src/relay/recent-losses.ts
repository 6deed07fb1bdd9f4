/** After so long a loss counts half. */
const HALF_LIFE_MS = 300_000;
/** Below this it is as none. */
const LEAST = 1 / 16;
/** Ids that are remembered; anyone may attach under any. */
const MAX_REMEMBERED = 4_096;

/** How often each node lost or failed its work of late; a node is known by its id, over its sessions. */
export class RecentLosses {
  private readonly losses = new Map<string, { readonly count: number; readonly at: number }>();
  private readonly now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.now = now;
  }

  get remembered(): number {
    return this.losses.size;
  }

  add(nodeId: string): void {
    const count = this.of(nodeId) + 1;
    // Last in the order, which is that of their newest losses.
    this.losses.delete(nodeId);
    this.losses.set(nodeId, { count, at: this.now() });
    for (const oldest of this.losses.keys()) {
      if (this.of(oldest) > 0 && this.losses.size <= MAX_REMEMBERED) break;
      this.losses.delete(oldest);
    }
  }

  /** Each counts 1 at first. */
  of(nodeId: string): number {
    const found = this.losses.get(nodeId);
    if (!found) return 0;
    const left = found.count * 0.5 ** ((this.now() - found.at) / HALF_LIFE_MS);
    return left < LEAST ? 0 : left;
  }
}
