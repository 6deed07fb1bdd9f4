import type { IncomingMessage } from 'node:http';

/** What a client had sent already is read, so that it sees its answer and its connection goes on; of more than this nothing is. */
const MOST_BYTES = 256 * 1024;
/** A client that goes on sending has so long to see its answer. */
const LOOK_MS = 250;

/**
 * Drops what is left of the body of a request, over HTTP/1.1, that has its answer. The connection of a body that is too long to
 * be worth it is cut: reading it is what a flood of such would cost others.
 */
export function dropRest(request: IncomingMessage): void {
  if (request.readableEnded) return;
  let dropped = 0;
  const drop = (chunk: Uint8Array) => {
    dropped += chunk.byteLength;
    if (dropped <= MOST_BYTES) return;
    request.off('data', drop).pause();
    const timer = setTimeout(() => request.socket.destroy(), LOOK_MS);
    request.socket.once('close', () => clearTimeout(timer));
  };
  request.on('data', drop).resume();
}
