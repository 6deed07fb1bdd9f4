import type { EventEmitter } from 'node:events';
import { Code, ConnectError } from '@connectrpc/connect';

/** Why most streams close: a reason of its own for each would cost more than their end does. */
const CLOSED = new ConnectError('The stream has closed.', Code.Canceled);

/** Aborts when a stream closes, or with the reason of `ended`, whichever is first. */
export function leavingSignal(stream: EventEmitter, ended: AbortSignal | undefined): AbortSignal {
  const left = new AbortController();
  const end = () => left.abort(ended?.reason);
  if (ended?.aborted) end();
  else ended?.addEventListener('abort', end, { once: true });
  stream.once('close', () => {
    ended?.removeEventListener('abort', end);
    left.abort(CLOSED);
  });
  return left.signal;
}
