import type { IncomingMessage, ServerResponse } from 'node:http';
import { Code, type ConnectError } from '@connectrpc/connect';
import { codeToString } from '@connectrpc/connect/protocol-connect';
import { dropRest } from '../drop-rest.ts';

const STATUS: Partial<Record<Code, number>> = {
  [Code.Unauthenticated]: 401,
  [Code.PermissionDenied]: 403,
  [Code.ResourceExhausted]: 429,
};

/**
 * Refuses a request before any of it is read. Every protocol's clients take the status for what it is:
 * https://connectrpc.com/docs/protocol#error-codes, and gRPC-web likewise.
 */
export function refuse(request: IncomingMessage, response: ServerResponse, error: ConnectError): void {
  const status = STATUS[error.code] ?? 500;
  error.metadata.forEach((value, name) => {
    response.setHeader(name, value);
  });
  if (status === 401) response.setHeader('www-authenticate', 'Bearer');
  response.setHeader('content-type', 'application/json');
  finish(request, response, status, JSON.stringify({ code: codeToString(error.code), message: error.rawMessage }));
}

/** Refuses by a status that says enough. */
export function refuseAs(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  why: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader('content-type', 'text/plain');
  finish(request, response, status, `${why}\n`);
}

function finish(request: IncomingMessage, response: ServerResponse, status: number, text: string): void {
  // Over HTTP/2 what isn't read is held back by its stream's window.
  if (request.httpVersionMajor < 2) dropRest(request);
  response.writeHead(status, { 'cache-control': 'no-store' }).end(text);
}
