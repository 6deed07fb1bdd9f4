import { create, toBinary } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import {
  DetachRequestSchema,
  DetachResponseSchema,
  type NodeCommand,
  NodeCommandSchema,
  type NodeRelay,
  ReportResponseSchema,
  type Welcome,
} from '../contract/gen/node_relay_pb.ts';
import { type Principal, principalOf } from './auth/principal.ts';
import type { Fleet } from './fleet.ts';
import { FrameBatch } from './frame-batch.ts';
import { frameSinkKey } from './frame-sink.ts';
import { addressKey } from './limits/address-key.ts';
import { NodeQuota } from './limits/node-quota.ts';

export interface NodeBounds {
  /** Nodes of one host, where its address is its own, and of one session. */
  readonly hostNodes: number;
  readonly sessionNodes: number;
  readonly boundsHost: (address: string) => boolean;
}

const batch = new FrameBatch();

function framesOf(commands: readonly NodeCommand[]): Uint8Array {
  // All nodes share the batch: one command that can't be encoded leaves none of the others behind in it.
  for (const message of commands.map((command) => toBinary(NodeCommandSchema, command))) batch.add(message);
  return batch.take();
}

/** What the pages talk to. docs/relay-protocol.md tells the protocol. */
export function nodeRelayService(fleet: Fleet, bounds: NodeBounds): ServiceImpl<typeof NodeRelay> {
  const quota = new NodeQuota();

  function ownersOf({ role, key, address }: Principal): [string, number][] {
    return [
      ...(role === undefined ? [] : [[key, bounds.sessionNodes] as [string, number]]),
      ...(bounds.boundsHost(address) ? [[addressKey(address), bounds.hostNodes] as [string, number]] : []),
    ];
  }

  /** One whose session on the web port ends is no node any more: its work goes on elsewhere at once. */
  function endWith(ended: AbortSignal | undefined, { sessionToken, relayEpoch, sessionEpoch }: Welcome): () => void {
    const detach = () => {
      try {
        fleet.detach(create(DetachRequestSchema, { sessionToken, relayEpoch, sessionEpoch }));
      } catch {
        // A newer Attach has it, or it is over.
      }
    };
    if (ended?.aborted) detach();
    ended?.addEventListener('abort', detach, { once: true });
    return () => ended?.removeEventListener('abort', detach);
  }

  return {
    async *attach(request, context) {
      const principal = principalOf(context.values);
      const owners = ownersOf(principal);
      if (request.resume === undefined) quota.check(owners, new Set(fleet.links.map(({ token }) => token)));
      let forget = () => {};
      try {
        const sink = context.values.get(frameSinkKey);
        for await (const commands of fleet.attach(request, context.signal, principal.role === 'operator')) {
          const [first] = commands;
          if (first?.command.case === 'welcome') {
            const welcome = first.command.value;
            quota.add(welcome.sessionToken, owners);
            forget = endWith(principal.ended, welcome);
          }
          if (!sink) yield* commands;
          else if (!sink.write(framesOf(commands)) && !(await sink.drained())) return;
        }
        if (principal.ended?.aborted) throw principal.ended.reason;
      } finally {
        forget();
      }
    },
    report: (request) => create(ReportResponseSchema, { lastReportSeq: fleet.report(request) }),
    detach(request) {
      fleet.detach(request);
      return create(DetachResponseSchema);
    },
  };
}
