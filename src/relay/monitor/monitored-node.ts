import type { MessageInitShape } from '@bufbuild/protobuf';
import { Node_State, type NodeSchema } from '../../contract/gen/fleet_monitor_pb.ts';
import type { NodeLink } from '../node-link.ts';

const STATES = {
  serving: Node_State.SERVING,
  paused: Node_State.PAUSED,
  leaving: Node_State.LEAVING,
  'out of reach': Node_State.OUT_OF_REACH,
} as const;

/** What an operator sees of a node; what it did not tell stays unset. */
export function monitoredNode(link: NodeLink): MessageInitShape<typeof NodeSchema> {
  const { facts, load, speed } = link;
  return {
    rank: link.rank,
    nodeId: facts.nodeId,
    state: STATES[link.state],
    adapter: facts.adapter,
    software: facts.software,
    precision: facts.precision,
    kvType: facts.kvType,
    contextLength: facts.contextLength,
    poolTokens: facts.poolTokens,
    maxRunning: facts.maxRunning,
    trusted: link.trusted,
    attachedAtMs: link.attachedAt,
    heardAtMs: link.clocks.heardAt,
    running: link.runningSamples,
    tokens: BigInt(link.madeTokens),
    losses: link.losses,
    ...known('sampleTokensPerSecond', speed.tokensPerSecond),
    ...known('genThroughput', load?.genThroughput),
    ...known('usedTokens', load?.usedTokens),
    ...known('cacheHitRate', load?.cacheHitRate),
    ...known('hidden', load?.hidden),
    ...known('gpuBytes', load?.gpuBytes),
  };
}

function known<K extends string, V>(key: K, value: V | undefined): { readonly [_ in K]?: V } {
  return (value === undefined ? {} : { [key]: value }) as { readonly [_ in K]?: V };
}
