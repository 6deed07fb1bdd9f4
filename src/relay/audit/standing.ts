/** Audits that a node passes before it is audited as little as others. */
export const NEWCOMER_PASSES = 50;
/** So many times as often it is audited until then. */
export const NEWCOMER_TIMES = 10;
/** What a node made so long ago is not flagged with what it lied about. */
const FLAGGED_MS = 600_000;
/** Samples of one node that may be flagged; the newest. */
const MOST_FLAGGED = 1_000;
/** Node ids that are remembered; anyone may attach under any. */
const MOST_NODES = 4_096;

/** A sample by which its client's log finds it. */
export interface FlaggedSample {
  readonly job: string;
  readonly request: string;
  readonly index: number;
}

interface Standing {
  passes: number;
  readonly recent: { readonly at: number; readonly sample: FlaggedSample }[];
}

/** How often each node, by its id, passed audits, and what it made in the last minutes. */
export class Standings {
  private readonly nodes = new Map<string, Standing>();
  private readonly now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.now = now;
  }

  passes(nodeId: string): number {
    return this.nodes.get(nodeId)?.passes ?? 0;
  }

  passed(nodeId: string): void {
    this.of(nodeId).passes++;
  }

  made(nodeId: string, sample: FlaggedSample): void {
    const { recent } = this.of(nodeId);
    recent.push({ at: this.now(), sample });
    const since = this.now() - FLAGGED_MS;
    while (recent.length > MOST_FLAGGED || recent[0]!.at < since) recent.shift();
  }

  /** Forgets a node that lied; gives what it made in the last minutes. */
  remove(nodeId: string): readonly FlaggedSample[] {
    const recent = this.nodes.get(nodeId)?.recent ?? [];
    this.nodes.delete(nodeId);
    const since = this.now() - FLAGGED_MS;
    return recent.filter(({ at }) => at >= since).map(({ sample }) => sample);
  }

  /** The node's own, as the one that was used last. */
  private of(nodeId: string): Standing {
    const standing = this.nodes.get(nodeId) ?? { passes: 0, recent: [] };
    this.nodes.delete(nodeId);
    this.nodes.set(nodeId, standing);
    if (this.nodes.size > MOST_NODES) {
      for (const oldest of this.nodes.keys()) {
        this.nodes.delete(oldest);
        break;
      }
    }
    return standing;
  }
}

/** The part of a node's samples that is audited, where `share` is all others'. */
export function shareOf(share: number, passes: number): number {
  return passes < NEWCOMER_PASSES ? Math.min(1, share * NEWCOMER_TIMES) : share;
}
