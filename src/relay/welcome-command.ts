import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type NodeCommand,
  NodeCommandSchema,
  SchedulePolicy,
  type WelcomeSchema,
} from '../contract/gen/node_relay_pb.ts';
import type { LinkSettings } from './link-settings.ts';
import type { SchedulePolicyName } from './options.ts';

const POLICIES: Readonly<Record<SchedulePolicyName, SchedulePolicy>> = {
  lpm: SchedulePolicy.LPM,
  fcfs: SchedulePolicy.FCFS,
  priority: SchedulePolicy.PRIORITY,
};

type SessionFields = 'sessionEpoch' | 'sessionToken' | 'rank' | 'lastReportSeq' | 'resumed';

/** The first command of a stream: what session it is, and the relay's terms. */
export function welcomeCommand(
  session: Pick<MessageInitShape<typeof WelcomeSchema>, SessionFields>,
  { relayEpoch, leaseMs, heartbeatMs, build, schedulePolicy }: LinkSettings,
): NodeCommand {
  const terms = { relayEpoch, leaseMs, heartbeatMs, build, schedulePolicy: POLICIES[schedulePolicy] };
  return create(NodeCommandSchema, {
    required: true,
    command: { case: 'welcome', value: { ...session, ...terms } },
  });
}
