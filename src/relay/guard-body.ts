import type { DescMethod } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { guardJson } from '../contract/json-guard.ts';
import { guardWire } from '../contract/wire-guard.ts';
import { ByteSink } from './byte-sink.ts';
import type { RequestLimits } from './guard-limits.ts';
import type { ReceivingBudget } from './receiving-budget.ts';
import { toConnectError } from './to-connect-error.ts';

/** How a request body is laid out, as its content type says. */
export interface BodyForm {
  /** Messages in envelopes of five bytes (gRPC, gRPC-web, Connect streams), or one bare message (Connect unary). */
  readonly enveloped: boolean;
  readonly json: boolean;
}

const ENVELOPE_BYTES = 5;
const COMPRESSED = 1;
/** What a chunk counts for beside its bytes: a body in crumbs is more work than its size tells. */
export const CHUNK_BYTES = 64;

/**
 * Stands between the wire and the decoder of a method that takes one message: gathers the body within its bounds of
 * size, time and what all streams hold together, looks at the message before anything decodes it, and hands it on in
 * one piece. A chunk a byte long costs a copy, not a walk over all chunks before it. `return` of the body's iterator must
 * settle a `next` that waits. Throws ConnectError.
 */
export async function* guardBody(
  body: AsyncIterable<Uint8Array>,
  form: BodyForm,
  method: DescMethod,
  limits: RequestLimits,
  budget: Pick<ReceivingBudget, 'take' | 'release'>,
  receiveMs: number,
): AsyncGenerator<Uint8Array> {
  const sink = new ByteSink();
  const maxBytes = form.json ? limits.maxJsonBytes : limits.maxBytes;
  const chunks = body[Symbol.asyncIterator]();
  let held = 0;
  let late = false;
  // Ends a `next` that waits. A race in the loop would keep something of every chunk until the body ends.
  const timer = setTimeout(() => {
    late = true;
    void chunks.return?.();
  }, receiveMs);
  try {
    for (;;) {
      const next = await chunks.next();
      if (late) throw new ConnectError('The request took too long to arrive.', Code.DeadlineExceeded);
      if (next.done) break;
      const chunk = next.value;
      const cost = chunk.byteLength + CHUNK_BYTES;
      budget.take(cost);
      held += cost;
      sink.append(chunk, form.enveloped ? Math.min(promisedBytes(sink), maxBytes + ENVELOPE_BYTES) : 0);
      checkSize(sink, form, maxBytes);
    }
    clearTimeout(timer);
    const start = form.enveloped ? ENVELOPE_BYTES : 0;
    if (sink.length < start) {
      if (sink.length > 0) throw new ConnectError('The body ends inside an envelope.', Code.InvalidArgument);
    } else if (!form.enveloped || ((sink.bytes[0] as number) & COMPRESSED) === 0) {
      look(sink.bytes.subarray(start), form, method, limits);
    }
    if (sink.length > 0) yield sink.bytes;
  } catch (error) {
    throw toConnectError(error);
  } finally {
    clearTimeout(timer);
    void chunks.return?.();
    budget.release(held);
  }
}

/** Whether the message is too large is known from its envelope: nothing more of it is read then. */
function checkSize(sink: ByteSink, { enveloped }: BodyForm, maxBytes: number): void {
  let size = sink.length;
  if (enveloped) {
    if (sink.length < ENVELOPE_BYTES) return;
    size = promisedBytes(sink) - ENVELOPE_BYTES;
    if (sink.length > ENVELOPE_BYTES + Math.min(size, maxBytes) && size <= maxBytes) {
      throw new ConnectError('The method takes one message.', Code.InvalidArgument);
    }
  }
  if (size > maxBytes) {
    throw new ConnectError(`The message is larger than ${maxBytes} bytes.`, Code.ResourceExhausted);
  }
}

/** Length of an enveloped body, as its first five bytes say; 0 before they are there. */
function promisedBytes({ bytes }: ByteSink): number {
  if (bytes.byteLength < ENVELOPE_BYTES) return 0;
  return ENVELOPE_BYTES + new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
}

function look(message: Uint8Array, form: BodyForm, method: DescMethod, limits: RequestLimits): void {
  if (form.json) guardJson(message, limits.json);
  else guardWire(method.input, message, limits.wire);
}
