import type { MadeSample } from './judge.ts';
import type { FlaggedSample } from './made-samples.ts';
import type { Scoring, Told } from './scoring.ts';
import type { PrecisionName } from './tolerance.ts';

/** A node that has a part in an audit, as it was then. */
export interface Party {
  readonly nodeId: string;
  readonly precision: PrecisionName;
}

/** What one node told of a sample that another made. */
export interface Scores extends Party {
  readonly told: Told;
}

/** A sample that is audited. */
export interface AuditCase {
  readonly maker: Party;
  /** How nodes score it. */
  readonly scoring: Scoring;
  readonly sample: FlaggedSample;
  /** A new canary's: the reference of later ones, once it passes. */
  readonly canary: MadeSample | undefined;
  /** Of the auditor that failed it; undefined before. */
  readonly disputed: Scores | undefined;
  /** No third node could take it, and maker and auditor are suspected. */
  readonly suspected: boolean;
  /** Nodes that couldn't score it, by id. */
  readonly unable: readonly string[];
  /** `performance.now()` after which nobody settles it any more. */
  readonly until: number;
}

/** Nodes that have a part in it already, by id. */
export function partiesOf({ maker, disputed, unable }: AuditCase): ReadonlySet<string> {
  return new Set([maker.nodeId, ...unable, ...(disputed ? [disputed.nodeId] : [])]);
}
