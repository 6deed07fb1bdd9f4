import { BLOCK_TOKENS } from '../model/runner.ts';
import type { Sequence } from './sequence.ts';
import type { BorrowedTail } from './sequence-kv.ts';

/** Tokens that both begin with and `a` need not compute; the last one's logits are each one's own. */
function common(a: Sequence, b: Sequence): number {
  if (a.kvKey.root !== b.kvKey.root) return 0;
  const most = Math.min(a.cacheLimit, b.ids.length - 1);
  let count = 0;
  while (count < most && a.ids[count] === b.ids[count]) count++;
  return count;
}

/** Whether a running sequence is about to compute a good part of what `sequence` begins with, `cached` tokens aside. */
export function isSharedSoon(sequence: Sequence, running: readonly Sequence[], cached: number): boolean {
  return running.some((other) => {
    const shared = common(sequence, other);
    const soon = shared - Math.max(cached, Math.min(shared, other.confirmed));
    // For a few tokens it isn't worth waiting, unless they are all there is.
    return soon >= BLOCK_TOKENS || (soon > 0 && shared === sequence.cacheLimit);
  });
}

/** The running sequence that has most of the block after `sequence`'s first `whole` cached tokens. */
export function borrowedTail(
  sequence: Sequence,
  running: readonly Sequence[],
  whole: number,
): BorrowedTail | undefined {
  let best: BorrowedTail | undefined;
  for (const other of running) {
    const tokens = Math.min(common(sequence, other), other.confirmed, whole + BLOCK_TOKENS - 1);
    if (tokens > (best?.tokens ?? whole)) best = { from: other.kv, tokens };
  }
  return best;
}
