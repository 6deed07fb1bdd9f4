/** A node as far as its share of the work depends on it. */
export interface NodeView {
  readonly rank: number;
  /** New work may go there: it is in reach, nobody holds it, it isn't leaving, and it has not refused this request. */
  readonly willing: boolean;
  /** Its context and its pool hold the request. */
  readonly fits: boolean;
  readonly runningSamples: number;
  readonly maxRunning: number;
  /** Prompts and outputs of what it was given, in tokens. */
  readonly heldTokens: number;
  readonly poolTokens: number;
  /** Tokens of the request's prompt that it caches. */
  readonly cachedTokens: number;
  /** Of one sample, as the relay counted; undefined where too few came. */
  readonly tokensPerSecond: number | undefined;
  readonly hidden: boolean;
  /** Work that it lost or failed of late; each counts for less as time goes by. */
  readonly losses: number;
}

/** What a request asks of a node. */
export interface Ask {
  /** Undefined is any. */
  readonly rank: number | undefined;
  readonly samples: number;
  readonly promptTokens: number;
}

/** A node says itself how many sequences it runs: none draws more work than this many would. */
const MOST_RUNNING = 256;
/** The slowest there is counts as so much of the fastest: it is slow, and no less a node for that. */
const LEAST_SPEED = 1 / 16;
/** A browser slows what is in a hidden tab. */
const HIDDEN_SPEED = 1 / 4;
/** More losses than these make no difference. */
const MOST_LOSSES = 4;

/**
 * How much load a cached prompt is worth: a node is never picked whose load is over this much more than another's. As in
 * SGLang's cache_aware policy, where an imbalance of loads puts the cache aside.
 */
export const HIT_WORTH = 0.5;
/** A prompt of so many tokens that is cached as a whole is worth half of that: a short one is soon computed. */
const HALF_WORTH_TOKENS = 256;

/** Whether a node has room for more sequences; an idle one takes any number and runs them in turn. */
export function hasRoom(
  { runningSamples, maxRunning }: Pick<NodeView, 'runningSamples' | 'maxRunning'>,
  samples: number,
) {
  return runningSamples === 0 || runningSamples + samples <= maxRunning;
}

/** How much of a fast and reliable node it is, in (0, 1]. `fastest` is the speed of the fastest. */
export function strengthOf({ tokensPerSecond, hidden, losses }: NodeView, fastest: number): number {
  const speed = tokensPerSecond === undefined ? 1 : Math.max(LEAST_SPEED, Math.min(1, tokensPerSecond / fastest));
  return speed * (hidden ? HIDDEN_SPEED : 1) * 2 ** -Math.min(losses, MOST_LOSSES);
}

/** The part of a node that would be in use with the request on it: over 1 where it is weak, or its pool too small. */
export function loadOf(node: NodeView, { samples, promptTokens }: Ask, fastest: number): number {
  const slots = (node.runningSamples + samples) / Math.min(node.maxRunning, MOST_RUNNING);
  const pool = (node.heldTokens + promptTokens - node.cachedTokens) / node.poolTokens;
  return Math.max(slots, pool) / strengthOf(node, fastest);
}

export function fastestOf(nodes: Iterable<NodeView>): number {
  let fastest = Number.MIN_VALUE;
  for (const { tokensPerSecond = 0 } of nodes) fastest = Math.max(fastest, tokensPerSecond);
  return fastest;
}

/**
 * The rank of the node that a request goes to: the one with the least load, less what the longest cached prefix is
 * worth; between equals the one that comes first. Undefined: none of those that could take it has room.
 */
export function chooseNode(ask: Ask, nodes: readonly NodeView[]): number | undefined {
  const able = nodes.filter((node) => node.willing && node.fits && (ask.rank === undefined || node.rank === ask.rank));
  const fastest = fastestOf(able);
  let best: { readonly rank: number; readonly cost: number } | undefined;
  for (const node of able) {
    if (!hasRoom(node, ask.samples)) continue;
    const worth = (HIT_WORTH * node.cachedTokens) / (ask.promptTokens + HALF_WORTH_TOKENS);
    const cost = loadOf(node, ask, fastest) - worth;
    if (!best || cost < best.cost || (cost === best.cost && node.rank < best.rank)) best = { rank: node.rank, cost };
  }
  return best?.rank;
}
