const SHORTEST_MS = 200;
const LONGEST_MS = 5_000;

/**
 * Milliseconds before the next try after `failures` failed ones: full jitter, from 0.2 s to a ceiling that doubles
 * from 0.4 s to 5 s, so that a restarted relay isn't met by all its pages at once.
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function backoffMs(failures: number, random: () => number): number {
  const ceiling = Math.min(LONGEST_MS, SHORTEST_MS * 2 ** Math.min(failures + 1, 16));
  return SHORTEST_MS + random() * (ceiling - SHORTEST_MS);
}
