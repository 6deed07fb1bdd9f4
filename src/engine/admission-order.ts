import { AGEING_MS, MOST_OVERTAKEN } from '../contract/ageing.ts';
import type { Sequence } from './sequence.ts';

/** In which order waiting sequences are admitted. */
export type AdmissionPolicy = 'lpm' | 'fcfs' | 'priority';

/** Over so many waiting sequences, matching all of them costs more than a good order gains (SGLang's bound). */
const LPM_MOST_WAITING = 128;

/**
 * The waiting sequences, the first to admit first. 'lpm': the longest cached prefix; 'fcfs': the first come;
 * 'priority': the highest priority, which grows with waiting. Whoever was overtaken too often comes before all others,
 * whatever the policy, so that nobody waits for ever.
 */
export function admissionOrder(
  waiting: readonly Sequence[],
  policy: AdmissionPolicy,
  cachedTokens: (sequence: Sequence) => number,
  now: number,
): Sequence[] {
  const byArrival = [...waiting].sort((a, b) => a.arrival - b.arrival);
  const effective = policy === 'lpm' && waiting.length > LPM_MOST_WAITING ? 'fcfs' : policy;
  if (effective === 'fcfs') return byArrival;
  const worth = (sequence: Sequence): number => {
    if (sequence.overtaken >= MOST_OVERTAKEN) return Number.POSITIVE_INFINITY;
    if (effective === 'lpm') return cachedTokens(sequence);
    return sequence.request.priority + (now - sequence.arrivedAt) / AGEING_MS;
  };
  const ranked = byArrival.map((sequence) => ({ sequence, worth: worth(sequence) }));
  // Infinity − Infinity is no number: equal worths keep their order of arrival.
  ranked.sort((a, b) => (a.worth === b.worth ? 0 : b.worth - a.worth));
  return ranked.map(({ sequence }) => sequence);
}
