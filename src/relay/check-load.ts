import type { NodeLoad } from '../contract/gen/node_relay_pb.ts';
import { Lie } from './lie.ts';
import type { NodeFacts } from './node-facts.ts';

/**
 * Throws Lie for values that are no counts, and for counts that can't be. `givenSamples` is how many the node was ever
 * given: of those that the relay has ended since, it may not know yet.
 */
export function checkLoad(load: NodeLoad, facts: NodeFacts, givenSamples: number): NodeLoad {
  const { retracted = 0, waiting, loraSlots = 0, loraUsed = 0 } = load;
  if (loraSlots > 4096 || loraUsed > loraSlots) throw new Lie('more adapters than it has slots for');
  if ((load.usedTokens ?? 0) > facts.poolTokens) throw new Lie('more used tokens than its pool has');
  if ((load.cachedTokens ?? 0) > facts.poolTokens) throw new Lie('more cached tokens than its pool has');
  if (retracted > givenSamples) throw new Lie('more retracted sequences than it was given');
  if (retracted > (waiting ?? retracted)) throw new Lie('more retracted sequences than wait');
  if (waiting === 0 && (load.waitingUncachedTokens ?? 0) > 0)
    throw new Lie('tokens of waiting sequences, and none waits');
  for (const value of [load.genThroughput ?? 0, load.cacheHitRate ?? 0]) {
    if (!Number.isFinite(value) || value < 0) throw new Lie('a load that is no number');
  }
  if ((load.cacheHitRate ?? 0) > 1) throw new Lie('a hit rate over 1');
  const { drafts = 0n, draftedTokens = 0n, acceptedTokens = 0n } = load;
  if (drafts > draftedTokens || acceptedTokens > draftedTokens)
    throw new Lie('more drafts, or accepted tokens of them, than drafted');
  return load;
}
