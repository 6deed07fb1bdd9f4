import { randomBytes } from 'node:crypto';

/** W3C Trace Context §3.2: version, trace id, parent id, flags; later versions may say more. */
const TRACEPARENT = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:$|-)/;
const SPAN_BYTES = 8;

/** Of which trace a request is. Hex. */
export interface Trace {
  readonly traceId: string;
  /** The client's span that asks. */
  readonly parentId: string;
  /** The relay's own, which is the parent of what nodes do. */
  readonly spanId: string;
  /** For nodes: of the same trace, with the relay's span, and the client's flags. */
  readonly traceparent: string;
}

/** The trace that a request's headers tell; undefined where they tell none, or nothing that counts. */
export function readTrace(headers: Headers): Trace | undefined {
  const [, traceId, parentId, flags] = TRACEPARENT.exec(headers.get('traceparent') ?? '') ?? [];
  if (traceId === undefined || parentId === undefined) return undefined;
  const spanId = newSpanId();
  return { traceId, parentId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
}

/** All zeros is no id. */
function newSpanId(): string {
  for (;;) {
    const bytes = randomBytes(SPAN_BYTES);
    if (bytes.some((byte) => byte !== 0)) return bytes.toString('hex');
  }
}
