import { type Node, Node_State } from '../../contract/gen/fleet_monitor_pb.ts';
import type { SchedulerLoad } from '../../contract/gen/sglang_scheduler_pb.ts';

export const STATES = {
  [Node_State.UNSPECIFIED]: { word: 'unknown', tone: undefined },
  [Node_State.SERVING]: { word: 'serving', tone: 'good' },
  [Node_State.PAUSED]: { word: 'paused', tone: 'warn' },
  [Node_State.LEAVING]: { word: 'leaving', tone: 'busy' },
  [Node_State.OUT_OF_REACH]: { word: 'out of reach', tone: 'bad' },
} as const;

/** A line of the table of nodes; what is not known, or not for this viewer, is undefined. */
export interface NodeRow {
  readonly rank: number;
  readonly nodeId: string | undefined;
  readonly adapter: string | undefined;
  readonly software: boolean;
  /** How it computes and keeps KV. */
  readonly form: string | undefined;
  readonly state: Node_State;
  readonly hidden: boolean;
  readonly trusted: boolean;
  readonly losses: number | undefined;
  readonly running: number;
  readonly maxRunning: number;
  readonly waiting: number | undefined;
  /** Tokens a second: of one sample, as the relay counts it, and of all, as the node tells. */
  readonly speed: number | undefined;
  readonly throughput: number | undefined;
  /** Parts in [0, 1]. */
  readonly usage: number | undefined;
  /** Tokens of its KV pool, or that an encoder holds at once; 0: not known. */
  readonly poolTokens: number;
  readonly hitRate: number | undefined;
  readonly tokens: number | undefined;
  /** Milliseconds since it attached, and since it was heard. */
  readonly attachedMs: number | undefined;
  readonly heardMs: number | undefined;
}

/**
 * GetLoads and, for an operator, ListNodes as one table by rank. GetLoads tells of nodes that serve, and has 0 where
 * something is unknown: its figures of a node's own count only where the node told a load, which `memory` shows.
 */
export function nodeRows(
  loads: readonly SchedulerLoad[],
  listed: { readonly nodes: readonly Node[]; readonly nowMs: number } | undefined,
): NodeRow[] {
  const byRank = new Map(loads.map((load) => [load.dpRank, load]));
  if (!listed) return loads.map(rowOfLoad);
  return listed.nodes.map((node) => rowOfNode(node, byRank.get(node.rank), listed.nowMs));
}

function rowOfLoad(load: SchedulerLoad): NodeRow {
  const told = load.memory !== undefined;
  return {
    rank: load.dpRank,
    ...{ nodeId: undefined, adapter: undefined, software: false, form: undefined, state: Node_State.SERVING },
    ...{ hidden: false, trusted: false, losses: undefined, speed: undefined, tokens: undefined },
    ...{ attachedMs: undefined, heardMs: undefined },
    running: load.numRunningReqs,
    maxRunning: load.maxRunningRequests,
    waiting: load.numWaitingReqs,
    throughput: told ? load.genThroughput : undefined,
    usage: told && keepsKv(load) ? load.tokenUsage : undefined,
    poolTokens: load.maxTotalNumTokens,
    // Of a node that has found nothing yet it is 0 as well.
    hitRate: told && load.cacheHitRate > 0 ? load.cacheHitRate : undefined,
  };
}

function rowOfNode(node: Node, load: SchedulerLoad | undefined, nowMs: number): NodeRow {
  // What one out of reach told last is no figure of now.
  const told: Partial<Node> = node.state === Node_State.OUT_OF_REACH ? {} : node;
  return {
    rank: node.rank,
    nodeId: node.nodeId,
    adapter: node.adapter || undefined,
    software: node.software,
    form: keepsKv(load) ? `${node.precision}, ${node.kvType} KV` : node.precision,
    state: node.state,
    hidden: node.hidden === true,
    trusted: node.trusted,
    losses: node.losses,
    running: load?.numRunningReqs ?? node.running,
    maxRunning: node.maxRunning,
    waiting: load?.numWaitingReqs,
    speed: node.sampleTokensPerSecond,
    throughput: told.genThroughput,
    usage: told.usedTokens === undefined || !keepsKv(load) ? undefined : told.usedTokens / node.poolTokens,
    poolTokens: node.poolTokens,
    hitRate: told.cacheHitRate,
    tokens: Number(node.tokens),
    attachedMs: nowMs - node.attachedAtMs,
    heardMs: nowMs - node.heardAtMs,
  };
}

/** What makes vectors has no KV from one step to the next. */
function keepsKv(load: SchedulerLoad | undefined): boolean {
  return load?.memory?.kvCacheGb !== 0;
}

export type SortKey = keyof Pick<
  NodeRow,
  | 'rank'
  | 'nodeId'
  | 'form'
  | 'state'
  | 'running'
  | 'waiting'
  | 'speed'
  | 'throughput'
  | 'usage'
  | 'hitRate'
  | 'tokens'
  | 'attachedMs'
>;

export interface Sorting {
  readonly key: SortKey;
  readonly descending: boolean;
}

/** Equal ones by rank; what is unknown comes last either way. */
export function sortedRows(rows: readonly NodeRow[], { key, descending }: Sorting): NodeRow[] {
  const way = descending ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [left, right] = [a[key], b[key]];
    if (left === right) return a.rank - b.rank;
    if (left === undefined) return 1;
    if (right === undefined) return -1;
    return left < right ? -way : way;
  });
}

/** Of the pools of all that tell how much of theirs is in use, as in the chart. */
export function poolUsage(rows: readonly NodeRow[]): number | undefined {
  const known = rows.flatMap(({ usage, poolTokens }) => (usage === undefined ? [] : [{ usage, poolTokens }]));
  const all = known.reduce((sum, { poolTokens }) => sum + poolTokens, 0);
  return all === 0 ? undefined : known.reduce((sum, { usage, poolTokens }) => sum + usage * poolTokens, 0) / all;
}

/** Mean hit rate over the rows that know it. */
export function meanHitRate(rows: readonly NodeRow[]): number | undefined {
  const known = rows.flatMap(({ hitRate }) => hitRate ?? []);
  return known.length === 0 ? undefined : known.reduce((sum, value) => sum + value, 0) / known.length;
}

export function sumOf(rows: readonly NodeRow[], key: 'throughput'): number | undefined {
  const known = rows.flatMap((row) => row[key] ?? []);
  return known.length === 0 ? undefined : known.reduce((sum, value) => sum + value, 0);
}
