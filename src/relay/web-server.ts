import { existsSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createSecureServer, type Http2SecureServer, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { Registry } from 'prom-client';
import sirv from 'sirv';
import type { ListeningServer } from './grpc-server.ts';
import type { ConnectionCount } from './limits/connection-count.ts';
import type { ServedAdapters } from './lora/served-adapters.ts';
import type { CurrentModel } from './model/current-model.ts';
import { serveModelFile } from './model-files.ts';
import { TokenizerFiles } from './tokenizer-files.ts';
import type { Certificate } from './web/certificate.ts';
import { refuseAs } from './web/refuse.ts';
import { pagePolicy } from './web/security-headers.ts';
import { type Answer, type WebParts as RequestParts, WebRequests } from './web/web-requests.ts';

export interface WebParts extends Omit<RequestParts, 'answer'> {
  readonly host: string;
  readonly port: number;
  /** Without one it is HTTP/1.1 in the clear. */
  readonly certificate: Certificate | undefined;
  readonly connections: ConnectionCount;
  readonly pageDir: string | undefined;
  readonly current: CurrentModel;
  /** That a page must be allowed to ask for the model's files. */
  readonly origins: readonly string[];
  readonly adapters: ServedAdapters;
  readonly registry: Registry;
  /** Whether a node is serving. */
  readonly serving: () => boolean;
}

/** A request's head comes within this, in milliseconds, or its connection is cut. */
const HEAD_MS = 20_000;
const KEEP_ALIVE_MS = 65_000;

/**
 * Page, model files, the tokenizer's, the services for nodes and clients over Connect and gRPC-web, `/session`, `/healthz` and
 * `/metrics`: over HTTP/1.1, and with a certificate over TLS and HTTP/2 too.
 */
export async function listenWeb(parts: WebParts): Promise<ListeningServer> {
  const { log, certificate, connections } = parts;
  const requests = new WebRequests({ ...parts, answer: answers(parts) });
  const { server, sessions } = certificate ? secureServer(certificate, requests) : plainServer(requests);
  server.prependListener('connection', (socket: Socket) => {
    // A secure server leaves Nagle's algorithm on, and each small answer then waits for an acknowledgement.
    if (connections.take(socket)) socket.setNoDelay(true);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(parts.port, parts.host, resolve);
  });
  server.on('error', (error) => log.error({ err: error }, 'web server failed'));
  return {
    port: (server.address() as AddressInfo).port,
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      if ('closeIdleConnections' in server) server.closeIdleConnections();
      for (const session of sessions) session.close();
      const timer = setTimeout(() => connections.destroyAll(), graceMs);
      await closed;
      clearTimeout(timer);
    },
  };
}

interface Listening {
  readonly server: Server | Http2SecureServer;
  readonly sessions: ReadonlySet<ServerHttp2Session>;
}

function plainServer(requests: WebRequests): Listening {
  const server = createServer({ headersTimeout: HEAD_MS, connectionsCheckingInterval: 5_000 }, requests.take);
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  return { server, sessions: new Set() };
}

function secureServer(certificate: Certificate, requests: WebRequests): Listening {
  const server = createSecureServer({
    ...certificate.pem,
    allowHTTP1: true,
    minVersion: 'TLSv1.2',
    handshakeTimeout: HEAD_MS,
    settings: { maxConcurrentStreams: 128, initialWindowSize: 1024 * 1024 },
  });
  server.on('request', (request, response) => {
    // Node's own form of HTTP/1.1 requests for HTTP/2: what is used here of both is the same.
    requests.take(request as unknown as IncomingMessage, response as unknown as ServerResponse);
  });
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
    // A client's broken connection; its streams are told by their own 'close'.
    session.on('error', () => {});
  });
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  certificate.onChange = (pem) => server.setSecureContext(pem);
  return { server, sessions };
}

/** Everything that is no rpc. */
function answers({ current, adapters, origins, pageDir, registry, serving }: WebParts): Answer {
  const page = pageAnswer(pageDir, origins);
  const tokenizer = new TokenizerFiles(current);
  return async (request, response, path) => {
    if (path === '/healthz') {
      const healthy = serving();
      response.writeHead(healthy ? 200 : 503, { 'content-type': 'text/plain', 'cache-control': 'no-store' });
      response.end(healthy ? 'ok\n' : 'no node is serving\n');
    } else if (path === '/metrics') {
      const text = await registry.metrics();
      response.writeHead(200, { 'content-type': registry.contentType, 'cache-control': 'no-store' }).end(text);
    } else if (
      !serveModelFile(current.now, request, response, current.bases, adapters) &&
      !(await tokenizer.serve(request, response, path))
    ) {
      page(request, response);
    }
  };
}

function pageAnswer(
  pageDir: string | undefined,
  origins: readonly string[],
): (request: IncomingMessage, response: ServerResponse) => void {
  const missing = (request: IncomingMessage, response: ServerResponse) =>
    refuseAs(request, response, 404, 'Not found.');
  if (pageDir === undefined || !existsSync(pageDir)) return missing;
  const policy = pagePolicy(origins);
  const files = sirv(pageDir, { etag: true, onNoMatch: missing });
  return (request, response) => {
    // Of a script too: what a Web Worker may ask is said with its own.
    response.setHeader('content-security-policy', policy);
    if (request.method === 'GET' || request.method === 'HEAD') files(request, response);
    else response.writeHead(405, { allow: 'GET, HEAD' }).end();
  };
}
