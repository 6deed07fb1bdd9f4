import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import type { Logger } from 'pino';
import {
  NodeRelay,
  type ReportRequest,
  ReportRequestSchema,
  ReportResponseSchema,
} from '../contract/gen/node_relay_pb.ts';
import { guardWire, type WireLimits } from '../contract/wire-guard.ts';
import { UnaryAnswer } from './answer-unary.ts';
import { decodePlainReport } from './decode-report.ts';
import type { Fleet } from './fleet.ts';
import type { GuardSettings } from './guard-handlers.ts';
import { limitsOf } from './guard-limits.ts';
import type { DirectAnswer } from './web/web-requests.ts';

/** Answers to what the web port is asked most, by path: each token comes in a report. */
export function directAnswers(fleet: Fleet, guard: GuardSettings, log: Logger): ReadonlyMap<string, DirectAnswer> {
  const { report } = NodeRelay.method;
  const { maxBytes, wire } = limitsOf(report, guard.model, guard.readMaxBytes);
  const answer = new UnaryAnswer({
    rpc: report.name,
    call(body) {
      const lastReportSeq = fleet.report(decodePlainReport(body) ?? decodeReport(body, wire));
      return toBinary(ReportResponseSchema, create(ReportResponseSchema, { lastReportSeq }));
    },
    maxBytes,
    budget: guard.budget,
    receiveMs: guard.receiveMs,
    log,
  });
  return new Map([[`/${NodeRelay.typeName}/${report.name}`, answer]]);
}

function decodeReport(body: Uint8Array, limits: WireLimits): ReportRequest {
  guardWire(ReportRequestSchema, body, limits);
  try {
    return fromBinary(ReportRequestSchema, body, { readUnknownFields: false });
  } catch (error) {
    throw new ConnectError(`parse binary: ${(error as Error).message}`, Code.InvalidArgument);
  }
}
