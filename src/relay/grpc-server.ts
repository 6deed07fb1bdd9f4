import { createServer, type ServerHttp2Session } from 'node:http2';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { createContextValues } from '@connectrpc/connect';
import type { UniversalHandlerFn } from '@connectrpc/connect/protocol';
import type { Logger } from 'pino';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import type { AllowFrom } from './allow-from.ts';
import { answerHttp2 } from './answer-http2.ts';
import { frameSinkKey } from './frame-sink.ts';
import { frameTypeOf, http2FrameSink } from './frame-sinks.ts';
import { ConnectionCount } from './limits/connection-count.ts';

/** A gateway opens a few. */
const CONNECTIONS = { ofHost: 512, most: 1_024, reserved: 256 } as const;
/** Streams a client leaves are resets; a gateway's one channel may bring many at once, which is no attack. */
const RESETS = 100_000;
const SILENT_PATH = `/${SglangScheduler.typeName}/${SglangScheduler.method.subscribeKvEvents.name}`;

export interface ListeningServer {
  readonly port: number;
  /** Takes no more connections; ends those that are open after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

export interface GrpcParts {
  readonly host: string;
  readonly port: number;
  /** Gateways offer neither TLS nor a token: where they come from is all that is known of them. */
  readonly allowFrom: AllowFrom;
  readonly stallMs: number;
  readonly log: Logger;
}

/** gRPC over cleartext HTTP/2, and nothing else: a client of HTTP/1.1 gets no answer that could pass for health. */
export async function listenGrpc(
  handlers: ReadonlyMap<string, UniversalHandlerFn>,
  { host, port, allowFrom, stallMs, log }: GrpcParts,
): Promise<ListeningServer> {
  const server = createServer({
    streamResetBurst: RESETS,
    streamResetRate: RESETS,
    // Of a session, which here is a whole gateway: the bodies being received are bounded elsewhere.
    maxSessionMemory: 4096,
    maxSessionInvalidFrames: RESETS,
    maxSessionRejectedStreams: RESETS,
    settings: { initialWindowSize: 1024 * 1024 },
  });
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
  });
  // Each is a client's broken connection, and its streams are told by their own 'close'.
  server.on('sessionError', (error) => log.debug({ reason: error.message }, 'gRPC connection broke'));
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    const path = (headers[':path'] ?? '').split('?', 1)[0] as string;
    const handler = handlers.get(path);
    if (!handler) {
      const grpc = String(headers['content-type'] ?? '').startsWith('application/grpc');
      stream.respond(
        grpc
          ? {
              ':status': 200,
              'content-type': 'application/grpc',
              'grpc-status': '12',
              'grpc-message': 'unknown service or method',
            }
          : { ':status': 404 },
        { endStream: true },
      );
      stream.resume();
      return;
    }
    const settings = { stallMs, headersFirst: path === SILENT_PATH, trailers: true, headers: {} };
    const type = frameTypeOf(headers['content-type']);
    const context = type
      ? {
          contextValues: createContextValues().set(
            frameSinkKey,
            http2FrameSink(stream, { 'content-type': type }, settings),
          ),
        }
      : {};
    answerHttp2(stream, headers, handler, context, settings).catch((error: unknown) => {
      log.error({ path, err: error }, 'gRPC stream failed');
      stream.destroy();
    });
  });
  // Who may not connect costs no HTTP/2 session.
  const connections = new ConnectionCount(CONNECTIONS);
  const front = createTcpServer((socket) => {
    if (allowFrom.has(socket.remoteAddress ?? '')) {
      if (connections.take(socket)) server.emit('connection', socket);
    } else {
      log.warn({ address: socket.remoteAddress }, 'gRPC connection refused: --allow-from does not hold its address');
      socket.destroy();
    }
  });
  await new Promise<void>((resolve, reject) => {
    front.once('error', reject);
    front.listen(port, host, resolve);
  });
  front.on('error', (error) => log.error({ err: error }, 'gRPC server failed'));
  server.on('error', (error) => log.error({ err: error }, 'gRPC server failed'));
  return { port: (front.address() as AddressInfo).port, close: (graceMs) => closeHttp2(front, sessions, graceMs) };
}

async function closeHttp2(server: Server, sessions: Set<ServerHttp2Session>, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  for (const session of sessions) session.close();
  const timer = setTimeout(() => {
    for (const session of sessions) session.destroy();
  }, graceMs);
  await closed;
  clearTimeout(timer);
}
