import { Code } from '@connectrpc/connect';
import type { Logger } from 'pino';
import type { Job } from './job.ts';

/** W3C Trace Context §3.2: version, trace id, parent id, flags; later versions may say more. */
const TRACEPARENT = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-[\da-f]{2}(?:$|-)/;

/** By what a request's lines in the log are found: the client's id, and its trace where the client tells one. */
export interface RequestIds {
  readonly request: string;
  /** As OpenTelemetry names them in logs. */
  readonly trace_id?: string;
  readonly span_id?: string;
}

export function requestIds(requestId: string, headers: Headers): RequestIds {
  const [, traceId, spanId] = TRACEPARENT.exec(headers.get('traceparent') ?? '') ?? [];
  return {
    request: requestId.slice(0, 200),
    ...(traceId === undefined || spanId === undefined ? {} : { trace_id: traceId, span_id: spanId }),
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
      cached_tokens: job.samples[0]?.cachedTokens,
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
