import type { Embed, Generate } from '../contract/gen/node_relay_pb.ts';

/** A line in the browser's console, at its debug level, by which a request is found in the relay's log and its trace; nothing of its prompt. */
export function logRequest({ jobId, traceparent }: Generate | Embed): void {
  const [, traceId, spanId] = traceparent.split('-');
  const trace = traceId === undefined || spanId === undefined ? {} : { trace_id: traceId, parent_span_id: spanId };
  console.debug(JSON.stringify({ msg: 'request', job: String(jobId), ...trace }));
}
