/** Audits that a node passes before it is audited as little as others. */
export const NEWCOMER_PASSES = 50;
/** So many times as often it is audited until then. */
export const NEWCOMER_TIMES = 10;
/** Node ids that are remembered; anyone may attach under any. */
const MOST_NODES = 4_096;

/** What audits found of a node's samples, as long as it is remembered. */
export interface NodeAudits {
  readonly passes: number;
  readonly fails: number;
  /** Failed audits that it had a part in, as maker or auditor, and that nobody could settle; fewer once it is cleared. */
  readonly suspicions: number;
}

interface Standing {
  passes: number;
  fails: number;
  suspicions: number;
  /** Passes since it was new, or suspected. */
  trust: number;
}

const NOTHING: NodeAudits = { passes: 0, fails: 0, suspicions: 0 };

/** How each node, by its id, fared in audits. */
export class Standings {
  private readonly nodes = new Map<string, Standing>();

  /** Of a node; zeros for one that isn't known. */
  of(nodeId: string): NodeAudits {
    return this.nodes.get(nodeId) ?? NOTHING;
  }

  /** Whether it is audited more than others: it is new, or suspected. */
  isWatched(nodeId: string): boolean {
    return (this.nodes.get(nodeId)?.trust ?? 0) < NEWCOMER_PASSES;
  }

  passed(nodeId: string): void {
    const standing = this.touch(nodeId);
    standing.passes++;
    standing.trust++;
    if (standing.trust === NEWCOMER_PASSES) standing.suspicions = 0;
  }

  failed(nodeId: string): void {
    this.touch(nodeId).fails++;
  }

  /** It may have lied, or the other did: it is audited like a newcomer again. */
  suspect(nodeId: string): void {
    const standing = this.touch(nodeId);
    standing.suspicions++;
    standing.trust = 0;
  }

  /** A suspicion fell on the other. */
  clear(nodeId: string): void {
    const standing = this.nodes.get(nodeId);
    if (standing && standing.suspicions > 0) standing.suspicions--;
  }

  /** Forgets a node that lied. */
  forget(nodeId: string): void {
    this.nodes.delete(nodeId);
  }

  /** The node's own, as the one that was used last. */
  private touch(nodeId: string): Standing {
    const standing = this.nodes.get(nodeId) ?? { ...NOTHING, trust: 0 };
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

/** The part of a node's samples that is audited, where `share` is that of one that isn't watched. */
export function shareOf(share: number, watched: boolean): number {
  return watched ? Math.min(1, share * NEWCOMER_TIMES) : share;
}
