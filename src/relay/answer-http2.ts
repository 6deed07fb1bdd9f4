import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { UniversalHandlerFn, UniversalServerResponse } from '@connectrpc/connect/protocol';
import { drained } from './drained.ts';
import { reencodeGrpcMessage } from './grpc-message.ts';
import { readNodeRequest } from './read-node-request.ts';

export interface Http2AnswerSettings {
  /** How long a client may not read what is ready for it. */
  readonly stallMs: number;
  /** Sends the headers at once, for streams that may stay silent for ever. */
  readonly headersFirst: boolean;
}

/**
 * Runs a handler on one HTTP/2 stream. An outcome without a message is sent as trailers only, in one HEADERS frame:
 * the gateway takes that as a failed call, which it may send elsewhere, and anything else as a stream that began.
 */
export async function answerHttp2(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  handler: UniversalHandlerFn,
  settings: Http2AnswerSettings,
): Promise<void> {
  const left = new AbortController();
  stream.once('close', () => left.abort());
  const request = readNodeRequest(
    stream,
    { httpVersion: '2.0', method: headers[':method'] ?? '', path: headers[':path'] ?? '/', headers },
    left.signal,
  );
  let trailers: OutgoingHttpHeaders = {};
  stream.once('wantTrailers', () => {
    if (!stream.destroyed) stream.sendTrailers(trailers);
  });
  if (settings.headersFirst) {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' }, { waitForTrailers: true });
  }
  const response = await handler(request);
  const body = response.body?.[Symbol.asyncIterator]();
  try {
    let next = await body?.next();
    if (stream.destroyed) return;
    if (!stream.headersSent) {
      if (!next || next.done) return sendWhole(stream, response);
      stream.respond({ ':status': response.status, ...nodeHeaders(response.header) }, { waitForTrailers: true });
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

function sendWhole(stream: ServerHttp2Stream, response: UniversalServerResponse): void {
  const headers = { ':status': response.status, ...nodeHeaders(response.header), ...nodeHeaders(response.trailer) };
  stream.respond(headers, { endStream: true });
  stopUpload(stream);
}

/** Tells a client that still sends to stop (RFC 9113 §8.1), once its answer is out. */
function stopUpload(stream: ServerHttp2Stream): void {
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
