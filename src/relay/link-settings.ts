import type { Build } from '../contract/gen/node_relay_pb.ts';
import type { VectorForm } from './check-embedded.ts';
import type { SchedulePolicyName } from './options.ts';
import type { PrefixIndex } from './prefix-index.ts';
import type { RecentLosses } from './recent-losses.ts';

/** What is the same for all nodes' sessions. */
export interface LinkSettings {
  readonly relayEpoch: bigint;
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  /** How long a sample that began may make no token, while it has credit, before its job is given to another node. */
  readonly tokenStallMs: number;
  /** How long what runs at a node that is to leave may go on there, while another could take it. */
  readonly drainMs: number;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** Of a model that makes vectors; undefined: it generates. */
  readonly vectors?: VectorForm | undefined;
  readonly build: Build;
  readonly prefixes: PrefixIndex;
  readonly losses: RecentLosses;
  readonly schedulePolicy: SchedulePolicyName;
}
