import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import {
  type Health,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Status,
} from '../contract/gen/grpc/health_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import type { Signal } from './signal.ts';

export interface HealthSource {
  /** Whether a node is serving. */
  readonly serving: () => boolean;
  /** Told when that may have changed. */
  readonly changed: Signal;
}

const SERVICES = ['', SglangScheduler.typeName];

/** grpc.health.v1, for the server as a whole ("") and the scheduler service. */
export function healthService({ serving, changed }: HealthSource): ServiceImpl<typeof Health> {
  const statusNow = () => (serving() ? Status.SERVING : Status.NOT_SERVING);
  return {
    check({ service }) {
      if (!SERVICES.includes(service)) throw new ConnectError('unknown service', Code.NotFound);
      return create(HealthCheckResponseSchema, { status: statusNow() });
    },
    async *watch({ service }, context) {
      const known = SERVICES.includes(service);
      let told: Status | undefined;
      while (!context.signal.aborted) {
        const status = known ? statusNow() : Status.SERVICE_UNKNOWN;
        // Before the write: what changes while the client reads is not missed.
        const next = changed.wait(context.signal);
        if (status !== told) {
          told = status;
          yield create(HealthCheckResponseSchema, { status });
        }
        await next;
      }
    },
  };
}
