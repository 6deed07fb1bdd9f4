import { create } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import {
  type FleetMonitor,
  GetHistoryResponseSchema,
  ListNodesResponseSchema,
  ListRequestsResponseSchema,
} from '../../contract/gen/fleet_monitor_pb.ts';
import type { Fleet } from '../fleet.ts';
import type { JobTable } from '../job-table.ts';
import { type FleetHistory, INTERVAL_MS } from './fleet-history.ts';
import { monitoredNode } from './monitored-node.ts';
import type { RecentRequests } from './recent-requests.ts';
import { timelineOf } from './request-timeline.ts';

/** Requests of one answer. */
const MOST_REQUESTS = 100;

export interface MonitorParts {
  readonly fleet: Fleet;
  readonly table: JobTable;
  readonly history: FleetHistory;
  readonly recent: RecentRequests;
  readonly modelName: string;
  readonly packageVersion: string;
}

/** What the page's Fleet view polls: counts, times and ids, and nothing of any prompt or output. */
export function fleetMonitorService(parts: MonitorParts): ServiceImpl<typeof FleetMonitor> {
  const { fleet, table, history, recent } = parts;
  return {
    getHistory({ relayEpoch, after }) {
      const { tokens, requests, aborted, failovers, auditsPassed, auditsFailed, auditsOpen } = history.totals;
      return create(GetHistoryResponseSchema, {
        relayEpoch: fleet.relayEpoch,
        nowMs: performance.now(),
        model: parts.modelName,
        version: parts.packageVersion,
        intervalMs: INTERVAL_MS,
        points: history.after(relayEpoch === fleet.relayEpoch ? after : 0),
        latencies: history.latencies,
        totals: {
          requests: BigInt(requests),
          aborted: BigInt(aborted),
          tokens: BigInt(tokens),
          failovers: BigInt(failovers),
          auditsPassed: BigInt(auditsPassed),
          auditsFailed: BigInt(auditsFailed),
          auditsOpen: BigInt(auditsOpen),
        },
      });
    },

    listNodes: () =>
      create(ListNodesResponseSchema, { nowMs: performance.now(), nodes: fleet.links.map(monitoredNode) }),

    listRequests({ limit }) {
      const most = limit === 0 ? MOST_REQUESTS : Math.min(limit, MOST_REQUESTS);
      const open = [...table.jobs].filter((job) => job.outcome === undefined);
      const told = open.slice(-most).reverse();
      return create(ListRequestsResponseSchema, {
        nowMs: performance.now(),
        requests: [...told.map((job) => timelineOf(job)), ...recent.newest(most - told.length)],
        open: open.length,
      });
    },
  };
}
