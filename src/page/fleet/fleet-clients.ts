import { createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-web';
import { FleetMonitor } from '../../contract/gen/fleet_monitor_pb.ts';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import type { Ask } from '../../node/relay-access.ts';
import type { FleetClients } from './fleet-watch.ts';

/** The relay's services over gRPC-web; `ask` is fetch, with the viewer's session. */
export function fleetClients(ask: Ask): FleetClients {
  const transport = createGrpcWebTransport({ baseUrl: location.origin, fetch: ask });
  return { scheduler: createClient(SglangScheduler, transport), monitor: createClient(FleetMonitor, transport) };
}
