import { Code } from '@connectrpc/connect';
import type { Logger } from 'pino';
import type { Job } from './job.ts';
import { shownId } from './shown-id.ts';
import type { Trace } from './trace-context.ts';

/** By what a request's lines in the log are found: the client's id, and its trace where the client tells one. */
export interface RequestIds {
  readonly request: string;
  /** As OpenTelemetry names them in logs: the span is the relay's own, which nodes are told, and its parent the client's. */
  readonly trace_id?: string;
  readonly span_id?: string;
  readonly parent_span_id?: string;
}

export function requestIds(requestId: string, trace: Trace | undefined): RequestIds {
  return {
    request: shownId(requestId),
    ...(trace && { trace_id: trace.traceId, span_id: trace.spanId, parent_span_id: trace.parentId }),
  };
}

/** One line for a request that is over: counts, times and how it ended; nothing of its texts. */
export function logEnd(log: Logger, ids: RequestIds, job: Job): void {
  const now = performance.now();
  log.info(
    {
      ...ids,
      job: String(job.id),
      prompt_tokens: job.request.inputIds.length,
      tokens: job.samples.map((sample) => sample.ids.length),
      cached_tokens: job.cachedTokens,
      first_token_ms: job.firstTokenAt === undefined ? undefined : Math.round(job.firstTokenAt - job.arrivedAt),
      ms: Math.round(now - job.arrivedAt),
      moved: job.interrupted,
      outcome: outcomeOf(job.outcome),
      finish: job.samples.map((sample) => sample.finish?.reason),
    },
    'request over',
  );
}

function outcomeOf(outcome: Job['outcome']): string {
  // With none yet, it was its reader that went.
  return typeof outcome === 'object' ? Code[outcome.code] : (outcome ?? 'left');
}
