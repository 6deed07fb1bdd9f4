import { BLOCK_TOKENS, NO_BLOCK } from '../model/runner.ts';
import type { CacheNode } from './cache-node.ts';

/** The child that shares most tokens with `ids` from `at` on, below `limit`; of parts of blocks, one with all groups'. */
export function bestChild(node: CacheNode, ids: readonly number[], at: number, limit: number) {
  let best: { node: CacheNode; tokens: number } | undefined;
  for (const child of node.children) {
    const tokens = commonTokens(child.tokens, ids, at, limit);
    if (tokens <= (best?.tokens ?? 0)) continue;
    if (tokens === BLOCK_TOKENS || !child.blocks.includes(NO_BLOCK)) best = { node: child, tokens };
  }
  return best;
}

/** How many of `tokens` stand in `ids` from `at` on, none at `limit` or behind. */
export function commonTokens(tokens: readonly number[], ids: readonly number[], at: number, limit: number): number {
  const most = Math.min(tokens.length, limit - at);
  let common = 0;
  while (common < most && tokens[common] === ids[at + common]) common++;
  return common;
}
