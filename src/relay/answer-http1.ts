import type { IncomingMessage, ServerResponse } from 'node:http';
import type { UniversalHandlerFn } from '@connectrpc/connect/protocol';
import { drained } from './drained.ts';
import { readNodeRequest } from './read-node-request.ts';

/** Runs a handler on one HTTP/1.1 exchange. */
export async function answerHttp1(
  request: IncomingMessage,
  response: ServerResponse,
  handler: UniversalHandlerFn,
  stallMs: number,
): Promise<void> {
  const left = new AbortController();
  response.once('close', () => left.abort());
  const answer = await handler(
    readNodeRequest(
      request,
      {
        httpVersion: request.httpVersion,
        method: request.method ?? '',
        path: request.url ?? '/',
        headers: request.headers,
      },
      left.signal,
    ),
  );
  const body = answer.body?.[Symbol.asyncIterator]();
  try {
    let next = await body?.next();
    if (response.destroyed) return;
    answer.header?.forEach((value, name) => {
      response.setHeader(name, value);
    });
    // What a client still sends is read and dropped, by Node: closing at once would take the answer from it.
    response.writeHead(answer.status);
    for (; next && !next.done; next = await body?.next()) {
      if (response.destroyed) return;
      if (!response.write(next.value) && !(await drained(response, stallMs))) {
        response.destroy();
        return;
      }
    }
    response.end();
  } finally {
    await body?.return?.().catch(() => {});
  }
}
