import type { TopOfPosition } from '../sample.ts';
import type { MadeSample } from './judge.ts';
import type { FlaggedSample } from './standing.ts';

/** What one node told of a sample that another made. */
export interface Scores {
  readonly nodeId: string;
  readonly told: readonly TopOfPosition[];
}

/** A sample that is audited. */
export interface AuditCase {
  readonly maker: string;
  readonly made: MadeSample;
  readonly sample: FlaggedSample;
  /** A new canary's: the reference of later ones, once it passes. */
  readonly own: boolean;
  /** Of the auditor that failed it; undefined before. */
  readonly disputed: Scores | undefined;
  /** Nodes that couldn't score it, by id. */
  readonly unable: readonly string[];
  /** `performance.now()` after which nobody settles it any more. */
  readonly until: number;
}

/** Nodes that have a part in it already, by id. */
export function partiesOf({ maker, disputed, unable }: AuditCase): ReadonlySet<string> {
  return new Set([maker, ...unable, ...(disputed ? [disputed.nodeId] : [])]);
}
