import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { UniversalHandlerFn, UniversalServerResponse } from '@connectrpc/connect/protocol';
import type { AnswerContext } from './answer-http1.ts';
import { drained } from './drained.ts';
import { reencodeGrpcMessage } from './grpc-message.ts';
import { leavingSignal } from './leaving-signal.ts';
import { readNodeRequest } from './read-node-request.ts';

export interface Http2AnswerSettings {
  /** How long a client may not read what is ready for it. */
  readonly stallMs: number;
  /** Sends the headers at once, for streams that may stay silent for ever. */
  readonly headersFirst: boolean;
  /** Whether an answer ends with a frame of trailers: gRPC's do, those of the web port have none. */
  readonly trailers: boolean;
  /** On every answer. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Runs a handler on one HTTP/2 stream. An outcome without a message is sent as trailers only, in one HEADERS frame:
 * the gateway takes that as a failed call, which it may send elsewhere, and anything else as a stream that began.
 */
export async function answerHttp2(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  handler: UniversalHandlerFn,
  context: AnswerContext,
  settings: Http2AnswerSettings,
): Promise<void> {
  const request = readNodeRequest(
    stream,
    { httpVersion: '2.0', method: headers[':method'] ?? '', path: headers[':path'] ?? '/', headers },
    leavingSignal(stream, context.ended),
  );
  let trailers: OutgoingHttpHeaders = {};
  const waitForTrailers = settings.trailers;
  if (waitForTrailers) {
    stream.once('wantTrailers', () => {
      if (!stream.destroyed) stream.sendTrailers(trailers);
    });
  }
  if (settings.headersFirst) {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' }, { waitForTrailers });
  }
  const { contextValues } = context;
  const response = await handler(contextValues ? { ...request, contextValues } : request);
  const body = response.body?.[Symbol.asyncIterator]();
  try {
    let next = await body?.next();
    if (stream.destroyed || stream.closed) return;
    if (!stream.headersSent) {
      if (!next || next.done) return sendWhole(stream, response, settings.headers);
      const head = { ':status': response.status, ...settings.headers, ...nodeHeaders(response.header) };
      stream.respond(head, { waitForTrailers });
    }
    for (; next && !next.done; next = await body?.next()) {
      if (stream.destroyed) return;
      if (!stream.write(next.value) && !(await drained(stream, settings.stallMs))) {
        stream.close(constants.NGHTTP2_CANCEL);
        return;
      }
    }
    trailers = nodeHeaders(response.trailer);
    stream.end();
    stopUpload(stream);
  } finally {
    await body?.return?.().catch(() => {});
  }
}

function sendWhole(
  stream: ServerHttp2Stream,
  { status, header, trailer }: UniversalServerResponse,
  headers: Readonly<Record<string, string>>,
): void {
  stream.respond(
    { ':status': status, ...headers, ...nodeHeaders(header), ...nodeHeaders(trailer) },
    { endStream: true },
  );
  stopUpload(stream);
}

/** Tells a client that still sends to stop (RFC 9113 §8.1), once its answer is out. */
export function stopUpload(stream: ServerHttp2Stream): void {
  if (stream.readableEnded) return;
  const stop = () => {
    if (!stream.destroyed) stream.close(constants.NGHTTP2_NO_ERROR);
  };
  if (stream.writableFinished) setImmediate(stop);
  else stream.once('finish', () => setImmediate(stop));
}

function nodeHeaders(headers: Headers | undefined): OutgoingHttpHeaders {
  const result: OutgoingHttpHeaders = {};
  headers?.forEach((value, name) => {
    result[name] = name === 'grpc-message' ? reencodeGrpcMessage(value) : value;
  });
  return result;
}
