import type { Judgement } from './judge.ts';

/** Who told what isn't the model's: the node that made a sample, or the one that audited it. */
export type Loser = 'maker' | 'auditor' | undefined;

/**
 * Settles a sample that failed its first audit, by a third node: two of the three agree. The maker loses where the third
 * fails it too; the auditor where the third passes it, and the auditor's scores are not the third's either. Else nobody
 * does: what can't be told apart from an honest difference puts no node out.
 */
export function settle(third: Judgement, auditors: Judgement): Loser {
  if (third.verdict === 'fails') return 'maker';
  if (third.verdict === 'passes' && auditors.verdict === 'fails') return 'auditor';
  return undefined;
}
