import type { IncomingMessage } from 'node:http';
import type { Http2ServerRequest, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { UniversalServerRequest } from '@connectrpc/connect/protocol';
import { readBody } from './read-body.ts';

/**
 * A Node request as Connect's handlers take it. Unlike Connect's own adapter, a body that is not read to its end
 * doesn't tear the stream down: the status of a refused request must still reach its client.
 */
export function readNodeRequest(
  source: IncomingMessage | ServerHttp2Stream,
  init: {
    httpVersion: string;
    method: string;
    path: string;
    headers: IncomingHttpHeaders | IncomingMessage['headers'];
  },
  signal: AbortSignal,
): UniversalServerRequest {
  return {
    httpVersion: init.httpVersion,
    method: init.method,
    // Only path and query matter to the handlers.
    url: `http://relay${init.path.startsWith('/') ? init.path : '/'}`,
    header: webHeaders(init.headers),
    body: readBody(source),
    signal,
  };
}

function webHeaders(headers: Http2ServerRequest['headers']): Headers {
  const result = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith(':') || value === undefined) continue;
    try {
      for (const one of Array.isArray(value) ? value : [value]) result.append(name, one);
    } catch {
      // What fetch's rules don't take as a header is none to the handlers.
    }
  }
  return result;
}
