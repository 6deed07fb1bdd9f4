import type { Sequence } from './sequence.ts';

/**
 * Who gives its blocks back when they run out: whoever has the fewest output tokens, then the longest prompt; never
 * the oldest that runs, so that there is always one that gets to its end. `running` is in order of arrival.
 */
export function retractionVictim(running: readonly Sequence[]): Sequence | undefined {
  const oldest = running.find((sequence) => !sequence.parked) ?? running[0];
  let victim: Sequence | undefined;
  for (const sequence of running) {
    if (sequence === oldest) continue;
    if (victim === undefined || givesWayFirst(sequence, victim)) victim = sequence;
  }
  return victim;
}

function givesWayFirst(a: Sequence, b: Sequence): boolean {
  if (a.outputLength !== b.outputLength) return a.outputLength < b.outputLength;
  return a.request.inputIds.length > b.request.inputIds.length;
}
