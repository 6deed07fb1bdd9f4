import type { DescService } from '@bufbuild/protobuf';
import { FleetMonitor } from '../../contract/gen/fleet_monitor_pb.ts';
import { NodeRelay } from '../../contract/gen/node_relay_pb.ts';
import { Operator } from '../../contract/gen/operator_pb.ts';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import type { Role } from './roles.ts';

/** Who may use a route: everybody, or who has a session of one of the roles. */
export type Access = 'public' | readonly Role[];

const CLIENTS = ['client', 'operator'] as const;
const OPERATORS = ['operator'] as const;
/** An operator's own page is one that audits trust. */
const NODES = ['node', 'operator'] as const;
const ALL = ['node', 'client', 'operator'] as const;

/** By method: an rpc without a row here does not start (`rpcAccess`). */
const RPCS: ReadonlyMap<DescService, Readonly<Record<string, Access>>> = new Map<
  DescService,
  Readonly<Record<string, Access>>
>([
  [NodeRelay, { Attach: NODES, Report: NODES, Detach: NODES }],
  // Who asks what of whom: ids and counts of everybody's requests.
  [FleetMonitor, { GetHistory: OPERATORS, ListNodes: OPERATORS, ListRequests: OPERATORS }],
  [
    Operator,
    {
      LoadLoRA: OPERATORS,
      UnloadLoRA: OPERATORS,
      UpdateWeights: OPERATORS,
      GetInternalState: OPERATORS,
      SetInternalState: OPERATORS,
    },
  ],
  [
    SglangScheduler,
    {
      Generate: CLIENTS,
      Embed: CLIENTS,
      // Of a client only what its own session began.
      Abort: CLIENTS,
      GetLoads: CLIENTS,
      HealthCheck: OPERATORS,
      GetModelInfo: OPERATORS,
      GetServerInfo: OPERATORS,
      GetTokenizer: OPERATORS,
      SubscribeKvEvents: OPERATORS,
      FlushCache: OPERATORS,
      StartProfile: OPERATORS,
      StopProfile: OPERATORS,
      LoadLoRAAdapter: OPERATORS,
      UnloadLoRAAdapter: OPERATORS,
      ListLoadedLoRAAdapters: OPERATORS,
    },
  ],
]);

/** Everything else of the web port. A path is of the first row that names it or begins it; the page is what is left. */
export const PATHS: readonly { readonly path: string; readonly below: boolean; readonly access: Access }[] = [
  // Its answer is given for a token only: it looks at that itself.
  { path: '/session', below: false, access: 'public' },
  { path: '/healthz', below: false, access: 'public' },
  { path: '/metrics', below: false, access: OPERATORS },
  { path: '/model/', below: true, access: NODES },
  // Requests are of token ids: who asks for something makes them, and nodes have the whole model.
  { path: '/tokenizer/', below: true, access: ALL },
  { path: '/', below: true, access: 'public' },
];

/** By request path, of all rpcs of these services. Throws where one has no row: a new rpc is nobody's until it is given to someone. */
export function rpcAccess(services: Iterable<DescService>): ReadonlyMap<string, Access> {
  const all = new Map<string, Access>();
  for (const service of services) {
    for (const { name } of service.methods) {
      const access = RPCS.get(service)?.[name];
      if (access === undefined) throw new Error(`${service.typeName}/${name} has no row in the table of access.`);
      all.set(`/${service.typeName}/${name}`, access);
    }
  }
  return all;
}

export function pathAccess(path: string): Access {
  for (const row of PATHS) {
    if (row.below ? path.startsWith(row.path) : path === row.path) return row.access;
  }
  return 'public';
}
