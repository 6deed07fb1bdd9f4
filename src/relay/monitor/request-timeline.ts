import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type { RequestTimelineSchema } from '../../contract/gen/fleet_monitor_pb.ts';
import type { Job } from '../job.ts';
import { shownId } from '../shown-id.ts';

/** What an operator sees of a request: ids, counts and times. `endedAt` is of `performance.now()`; undefined: it goes on. */
export function timelineOf(job: Job, endedAt?: number): MessageInitShape<typeof RequestTimelineSchema> {
  const { request, samples, stays, cachedTokens } = job;
  return {
    jobId: job.id,
    requestId: shownId(request.requestId),
    promptTokens: request.inputIds.length,
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    samples: samples.length,
    outputTokens: samples.reduce((sum, { ids }) => sum + ids.length, 0),
    arrivedAtMs: job.arrivedAt,
    ...(job.firstTokenAt === undefined ? {} : { firstTokenAtMs: job.firstTokenAt }),
    ...(endedAt === undefined ? {} : { endedAtMs: endedAt }),
    stays: stays.map(({ rank, nodeId, at }) => ({ rank, nodeId, atMs: at })),
    given: job.given,
    outcome: outcomeOf(job),
  };
}

function outcomeOf(job: Job): string {
  const { outcome } = job;
  if (typeof outcome === 'object') return Code[outcome.code];
  return outcome === 'complete' && !job.whole ? 'aborted' : (outcome ?? '');
}
