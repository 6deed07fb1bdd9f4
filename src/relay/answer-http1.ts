import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ContextValues } from '@connectrpc/connect';
import type { UniversalHandlerFn } from '@connectrpc/connect/protocol';
import { drained } from './drained.ts';
import { dropRest } from './drop-rest.ts';
import { leavingSignal } from './leaving-signal.ts';
import { readNodeRequest } from './read-node-request.ts';

/** What a handler is told of a request beside its bytes. */
export interface AnswerContext {
  readonly contextValues?: ContextValues;
  /** Aborts, with the status to end with, when who asks may ask no more. */
  readonly ended?: AbortSignal;
}

/** Runs a handler on one HTTP/1.1 exchange. */
export async function answerHttp1(
  request: IncomingMessage,
  response: ServerResponse,
  handler: UniversalHandlerFn,
  context: AnswerContext,
  stallMs: number,
): Promise<void> {
  const signal = leavingSignal(response, context.ended);
  const answer = await handler({
    ...readNodeRequest(
      request,
      {
        httpVersion: request.httpVersion,
        method: request.method ?? '',
        path: request.url ?? '/',
        headers: request.headers,
      },
      signal,
    ),
    ...(context.contextValues ? { contextValues: context.contextValues } : {}),
  });
  const body = answer.body?.[Symbol.asyncIterator]();
  try {
    let next = await body?.next();
    if (response.destroyed) return;
    if (!response.headersSent) {
      answer.header?.forEach((value, name) => {
        response.setHeader(name, value);
      });
      response.writeHead(answer.status);
    }
    for (; next && !next.done; next = await body?.next()) {
      if (response.destroyed) return;
      if (!response.write(next.value) && !(await drained(response, stallMs))) {
        response.destroy();
        return;
      }
    }
    // What a client still sends is dropped: closing at once would take the answer from it. What nobody has read, Node would.
    if (!request.readableDidRead) dropRest(request);
    response.end();
  } finally {
    const untouched = !request.readableDidRead;
    await body?.return?.().catch(() => {});
    if (!untouched) setImmediate(() => dropRest(request));
  }
}
