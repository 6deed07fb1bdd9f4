import { create } from '@bufbuild/protobuf';
import { invalid } from '../contract/contract-error.ts';
import {
  type GetLoadsRequest,
  type GetLoadsResponse,
  GetLoadsResponseSchema,
  type SchedulerLoad,
  SchedulerLoadSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import type { Job } from './job.ts';
import type { NodeLink } from './node-link.ts';
import { cachedTokensOf } from './node-view.ts';

const SECTIONS = ['core', 'memory', 'spec', 'lora', 'disagg', 'queues', 'all'];
const GIB = 1024 ** 3;
/** A node may tell more than the proto's field holds. */
const MAX_INT32 = 2 ** 31 - 1;

/** One load per node that serves. Throws ContractError for a section that doesn't exist. */
export function loadsOf(
  request: GetLoadsRequest,
  links: readonly NodeLink[],
  waiting: readonly Job[],
  version: string,
): GetLoadsResponse {
  const unknown = request.include.some((section) => !SECTIONS.includes(section));
  if (unknown) throw invalid('include', `must hold only ${SECTIONS.join(', ')}.`);
  const wants = (section: string) =>
    request.include.length === 0 || request.include.includes('all') || request.include.includes(section);
  const loads = links
    .map((link, at) => loadOf(link, waitingAt(link, at, links.length, waiting), wants))
    .filter((load) => request.dpRank === undefined || load.dpRank === request.dpRank);
  const sum = (value: (load: SchedulerLoad) => number) => loads.reduce((total, load) => total + value(load), 0);
  const mean = (value: (load: SchedulerLoad) => number) => (loads.length > 0 ? sum(value) / loads.length : 0);
  const running = sum((load) => load.numRunningReqs);
  // Without a node, what waits is nobody's, and still waits.
  const queued =
    links.length === 0 && request.dpRank === undefined ? samplesOf(waiting) : sum((load) => load.numWaitingReqs);
  return create(GetLoadsResponseSchema, {
    timestamp: new Date().toISOString(),
    version,
    dpRankCount: loads.length,
    loads,
    aggregate: {
      totalRunningReqs: running,
      totalWaitingReqs: queued,
      totalReqs: running + queued,
      avgTokenUsage: mean((load) => load.tokenUsage),
      avgThroughput: mean((load) => load.genThroughput),
      avgUtilization: mean((load) => load.utilization),
    },
  });
}

/** Jobs pinned to the node's rank, and its even share of those that any node may take. */
function waitingAt(link: NodeLink, at: number, count: number, waiting: readonly Job[]): readonly Job[] {
  const free = waiting.filter((job) => job.request.rank === undefined);
  return [...waiting.filter((job) => job.request.rank === link.rank), ...free.filter((_, turn) => turn % count === at)];
}

function loadOf(link: NodeLink, waiting: readonly Job[], wants: (section: string) => boolean): SchedulerLoad {
  const { facts, load } = link;
  const numRunningReqs = link.runningSamples;
  const numWaitingReqs = samplesOf(waiting);
  // What waits inside the node isn't among these: each waiting prompt counts once.
  const uncached = waiting.reduce((total, job) => total + uncachedAt(link, job), 0);
  const tokenUsage = tokenUsageOf(link);
  const value = create(SchedulerLoadSchema, {
    dpRank: link.rank,
    numRunningReqs,
    numWaitingReqs,
    numTotalReqs: numRunningReqs + numWaitingReqs,
    numUsedTokens: load?.usedTokens ?? 0,
    maxTotalNumTokens: facts.poolTokens,
    tokenUsage,
    genThroughput: load?.genThroughput ?? 0,
    cacheHitRate: load?.cacheHitRate ?? 0,
    utilization: utilizationOf(link),
    maxRunningRequests: facts.maxRunning,
    numWaitingUncachedTokens: Math.min(MAX_INT32, uncached + (load?.waitingUncachedTokens ?? 0)),
  });
  if (wants('memory') && load?.weightBytes !== undefined && load.kvBytes !== undefined) {
    value.memory = {
      $typeName: 'sglang.grpc.scheduler.MemoryMetrics',
      weightGb: Number(load.weightBytes) / GIB,
      kvCacheGb: Number(load.kvBytes) / GIB,
      graphGb: 0,
      tokenCapacity: facts.poolTokens,
    };
  }
  if (wants('spec') && load?.drafts && load.draftedTokens) {
    const { drafts, draftedTokens, acceptedTokens = 0n } = load;
    value.speculative = {
      $typeName: 'sglang.grpc.scheduler.SpeculativeMetrics',
      // Each draft brings one token more than what of it is right.
      acceptLength: 1 + Number(acceptedTokens) / Number(drafts),
      acceptRate: Number(acceptedTokens) / Number(draftedTokens),
    };
  }
  if (wants('lora') && load?.loraSlots !== undefined && load.loraSlots > 0) {
    const used = load.loraUsed ?? 0;
    value.lora = {
      $typeName: 'sglang.grpc.scheduler.LoRAMetrics',
      slotsUsed: used,
      slotsTotal: load.loraSlots,
      utilization: used / load.loraSlots,
    };
  }
  if (wants('disagg')) {
    value.disaggregation = {
      $typeName: 'sglang.grpc.scheduler.DisaggregationMetrics',
      mode: 'null',
      prefillPreallocQueueReqs: 0,
      prefillInflightQueueReqs: 0,
      decodePreallocQueueReqs: 0,
      decodeTransferQueueReqs: 0,
      decodeRetractedQueueReqs: 0,
      kvTransferSpeedGbS: 0,
      kvTransferLatencyMs: 0,
    };
  }
  if (wants('queues')) {
    value.queues = {
      $typeName: 'sglang.grpc.scheduler.QueueMetrics',
      // What waits inside the node is part of what runs there for the relay.
      waiting: numWaitingReqs,
      grammar: 0,
      paused: 0,
      retracted: link.retractedSamples ?? 0,
    };
  }
  return value;
}

function tokenUsageOf({ facts, load }: NodeLink): number {
  return (load?.usedTokens ?? 0) / facts.poolTokens;
}

/** SGLang's: the fuller of its sequences and its KV slots, of which it counts nine tenths as full. */
export function utilizationOf(link: NodeLink): number {
  return Math.max(link.runningSamples / link.facts.maxRunning, tokenUsageOf(link) / 0.9);
}

/** Tokens of a job's prompt that the node would have to compute. */
function uncachedAt(link: NodeLink, job: Job): number {
  return job.request.inputIds.length - cachedTokensOf(link, job);
}

/** SGLang counts every sample as a request of its own. */
function samplesOf(jobs: readonly Job[]): number {
  return jobs.reduce((total, job) => total + job.unfinished.length, 0);
}
