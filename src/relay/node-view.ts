import { BLOCK_TOKENS } from './block-hashes.ts';
import type { NodeView } from './choose-node.ts';
import { fitsAt } from './generate-command.ts';
import type { Job } from './job.ts';
import type { NodeLink } from './node-link.ts';

/** Tokens of a job's prompt that a node caches, as far as it told; the last is always computed. */
export function cachedTokensOf(link: NodeLink, job: Job): number {
  const cached = link.prefixes.matched(job.prefix) * BLOCK_TOKENS;
  return Math.min(cached, job.request.inputIds.length - 1);
}

/** What the choice of a node for a job goes by. */
export function viewOf(link: NodeLink, job: Job): NodeView {
  const { facts, rank, runningSamples, heldTokens, losses } = link;
  return {
    rank,
    willing: link.serving && !job.refusedAt(link) && link.adapters.holds(job.request.loraId),
    fits: fitsAt(job, facts),
    runningSamples,
    maxRunning: facts.maxRunning,
    heldTokens,
    poolTokens: facts.poolTokens,
    cachedTokens: cachedTokensOf(link, job),
    tokensPerSecond: link.speed.tokensPerSecond,
    hidden: link.load?.hidden === true,
    losses,
  };
}
