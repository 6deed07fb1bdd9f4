import type { ServerResponse } from 'node:http';
import { Code, type ConnectError } from '@connectrpc/connect';
import { codeToString } from '@connectrpc/connect/protocol-connect';

const STATUS: Partial<Record<Code, number>> = {
  [Code.Unauthenticated]: 401,
  [Code.PermissionDenied]: 403,
  [Code.ResourceExhausted]: 429,
};

/**
 * Refuses a request before any of it is read. Every protocol's clients take the status for what it is:
 * https://connectrpc.com/docs/protocol#error-codes, and gRPC-web likewise.
 */
export function refuse(response: ServerResponse, error: ConnectError): void {
  const status = STATUS[error.code] ?? 500;
  error.metadata.forEach((value, name) => {
    response.setHeader(name, value);
  });
  if (status === 401) response.setHeader('www-authenticate', 'Bearer');
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify({ code: codeToString(error.code), message: error.rawMessage }));
}

/** Refuses by a status that says enough. */
export function refuseAs(response: ServerResponse, status: number, why: string, headers = {}): void {
  response.writeHead(status, { 'content-type': 'text/plain', 'cache-control': 'no-store', ...headers });
  response.end(`${why}\n`);
}
