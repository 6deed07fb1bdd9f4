import { existsSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { UniversalHandlerFn } from '@connectrpc/connect/protocol';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import sirv from 'sirv';
import { answerHttp1 } from './answer-http1.ts';
import type { ListeningServer } from './grpc-server.ts';
import { serveModelFile } from './model-files.ts';
import type { ServedModel } from './served-model.ts';

export interface WebParts {
  readonly host: string;
  readonly port: number;
  readonly stallMs: number;
  readonly pageDir: string | undefined;
  readonly model: ServedModel;
  readonly registry: Registry;
  /** Whether a node is serving. */
  readonly serving: () => boolean;
  readonly log: Logger;
}

/** Without these a page gets no SharedArrayBuffer and no exact timer; they also keep other sites' windows out. */
const HEADERS = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

/** Page, model files, the page's services over Connect and gRPC-web, `/healthz` and `/metrics`, over HTTP/1.1. */
export async function listenWeb(
  handlers: ReadonlyMap<string, UniversalHandlerFn>,
  parts: WebParts,
): Promise<ListeningServer> {
  const { log } = parts;
  const page = pageHandler(parts.pageDir);
  const server = createServer((request, response) => {
    response.on('error', () => {});
    serve(request, response).catch((error: unknown) => {
      log.error({ err: error }, 'web request failed');
      response.destroy();
    });
  });
  server.keepAliveTimeout = 65_000;

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const path = (request.url ?? '/').split('?', 1)[0] as string;
    const handler = handlers.get(path);
    if (handler) {
      if (foreign(request)) response.writeHead(403).end('The request comes from another site.\n');
      else await answerHttp1(request, response, handler, parts.stallMs);
    } else if (path === '/healthz') {
      const serving = parts.serving();
      response.writeHead(serving ? 200 : 503, { 'content-type': 'text/plain', 'cache-control': 'no-store' });
      response.end(serving ? 'ok\n' : 'no node is serving\n');
    } else if (path === '/metrics') {
      const text = await parts.registry.metrics();
      response.writeHead(200, { 'content-type': parts.registry.contentType, 'cache-control': 'no-store' }).end(text);
    } else if (!serveModelFile(parts.model, request, response)) page(request, response);
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(parts.port, parts.host, resolve);
  });
  server.on('error', (error) => log.error({ err: error }, 'web server failed'));
  return {
    port: (server.address() as AddressInfo).port,
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearTimeout(timer);
    },
  };
}

/** A page of another site must not use the services with its visitor's access to this port. */
function foreign(request: IncomingMessage): boolean {
  const { origin, host } = request.headers;
  if (origin === undefined) return false;
  try {
    return new URL(origin).host !== host;
  } catch {
    return true;
  }
}

function pageHandler(pageDir: string | undefined): (request: IncomingMessage, response: ServerResponse) => void {
  const missing = (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(404, { 'content-type': 'text/plain' }).end('Not found.\n');
  };
  if (pageDir === undefined || !existsSync(pageDir)) return missing;
  const files = sirv(pageDir, { etag: true, onNoMatch: missing });
  return (request, response) => {
    if (request.method === 'GET' || request.method === 'HEAD') files(request, response);
    else response.writeHead(405, { allow: 'GET, HEAD' }).end();
  };
}
