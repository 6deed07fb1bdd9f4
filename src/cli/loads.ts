import { toJson } from '@bufbuild/protobuf';
import { GetLoadsResponseSchema, type SchedulerLoad } from '../contract/gen/sglang_scheduler_pb.ts';
import { asCliError, connectScheduler } from './scheduler-client.ts';
import type { HostPort } from './values.ts';

const BOUND_MS = 10_000;

/** What a node does not tell. */
const UNKNOWN = '-';

const COLUMNS: readonly (readonly [string, (load: SchedulerLoad) => string])[] = [
  ['rank', (load) => String(load.dpRank)],
  ['running', (load) => String(load.numRunningReqs)],
  ['waiting', (load) => String(load.numWaitingReqs)],
  ['max running', (load) => String(load.maxRunningRequests)],
  ['KV tokens', (load) => `${load.numUsedTokens}/${load.maxTotalNumTokens}`],
  ['KV use', (load) => percent(load.tokenUsage)],
  ['utilization', (load) => percent(load.utilization)],
  ['tokens/s', (load) => load.genThroughput.toFixed(1)],
  ['cache hits', (load) => percent(load.cacheHitRate)],
  ['uncached waiting', (load) => String(load.numWaitingUncachedTokens)],
  ['in grammar', ({ queues }) => String(queues?.grammar ?? UNKNOWN)],
  ['paused', ({ queues }) => String(queues?.paused ?? UNKNOWN)],
  ['retracted', ({ queues }) => String(queues?.retracted ?? UNKNOWN)],
  ['weights', ({ memory }) => (memory ? gigabytes(memory.weightGb) : UNKNOWN)],
  ['KV memory', ({ memory }) => (memory ? gigabytes(memory.kvCacheGb) : UNKNOWN)],
];

/** Each is a column only where at least one node tells of it. */
const COLUMNS_OF_SOME: typeof COLUMNS = [
  ['adapters', ({ lora }) => (lora ? `${lora.slotsUsed}/${lora.slotsTotal}` : UNKNOWN)],
  ['drafts right', ({ speculative }) => (speculative ? percent(speculative.acceptRate) : UNKNOWN)],
  ['tokens a draft', ({ speculative }) => speculative?.acceptLength.toFixed(2) ?? UNKNOWN],
];

/** Prints each node's load, as a table or as the rpc's JSON. */
export async function loads(relay: HostPort, json: boolean, write: (text: string) => void): Promise<void> {
  const client = await connectScheduler(relay);
  try {
    const response = await client.getLoads({}, { timeoutMs: BOUND_MS });
    if (json) {
      const value = toJson(GetLoadsResponseSchema, response, { alwaysEmitImplicit: true, useProtoFieldName: true });
      write(`${JSON.stringify(value)}\n`);
    } else {
      write(loadsTable(response.loads));
    }
  } catch (error) {
    throw asCliError(error, relay);
  }
}

export function loadsTable(all: readonly SchedulerLoad[]): string {
  if (all.length === 0) return 'No node is attached.\n';
  const columns = [...COLUMNS, ...COLUMNS_OF_SOME.filter(([, value]) => all.some((load) => value(load) !== UNKNOWN))];
  const rows = [columns.map(([name]) => name), ...all.map((load) => columns.map(([, value]) => value(load)))];
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) => `${row.map((cell, i) => cell.padStart(widths[i]!)).join('  ')}\n`).join('');
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}

/** Of a small model, megabytes: the proto counts in units of 2^30 bytes. */
function gigabytes(value: number): string {
  return value < 1 ? `${(value * 1024).toFixed(1)} MiB` : `${value.toFixed(2)} GiB`;
}
