import { create } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import { DetachResponseSchema, type NodeRelay, ReportResponseSchema } from '../contract/gen/node_relay_pb.ts';
import type { Fleet } from './fleet.ts';

/** What the pages talk to. docs/relay-protocol.md tells the protocol. */
export function nodeRelayService(fleet: Fleet): ServiceImpl<typeof NodeRelay> {
  return {
    async *attach(request, context) {
      yield* fleet.attach(request, context.signal);
    },
    report: (request) => create(ReportResponseSchema, { lastReportSeq: fleet.report(request) }),
    detach(request) {
      fleet.detach(request);
      return create(DetachResponseSchema);
    },
  };
}
