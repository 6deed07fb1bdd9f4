import type { ServerResponse } from 'node:http';
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { drained } from './drained.ts';
import type { FrameSink } from './frame-sink.ts';

// The first frames have the head of the answer go out before them: a call that ends without one is answered by `answerHttp1` and
// `answerHttp2`, as is every call's end.

/** What the frames of a sink are answers to: the content types of binary messages in envelopes, and of their answers. */
const TYPES: ReadonlyMap<string, string> = new Map([
  ['application/grpc', 'application/grpc+proto'],
  ['application/grpc+proto', 'application/grpc+proto'],
  ['application/grpc-web', 'application/grpc-web+proto'],
  ['application/grpc-web+proto', 'application/grpc-web+proto'],
  ['application/connect+proto', 'application/connect+proto'],
]);

/** The content type of an answer in frames; undefined where the request's is none of those. */
export function frameTypeOf(contentType: string | undefined): string | undefined {
  return TYPES.get((contentType ?? '').toLowerCase());
}

/** `stallMs` is how long the client may not read. */
export function http1FrameSink(response: ServerResponse, contentType: string, stallMs: number): FrameSink {
  return {
    write(frames) {
      if (response.destroyed) return false;
      if (!response.headersSent) response.writeHead(200, { 'content-type': contentType });
      return response.write(frames);
    },
    async drained() {
      if (await drained(response, stallMs)) return true;
      response.destroy();
      return false;
    },
  };
}

/** `head` is that of the answer. */
export function http2FrameSink(
  stream: ServerHttp2Stream,
  head: OutgoingHttpHeaders,
  { trailers, stallMs }: { readonly trailers: boolean; readonly stallMs: number },
): FrameSink {
  return {
    write(frames) {
      if (stream.destroyed || stream.closed) return false;
      if (!stream.headersSent) stream.respond({ ':status': 200, ...head }, { waitForTrailers: trailers });
      return stream.write(frames);
    },
    async drained() {
      if (await drained(stream, stallMs)) return true;
      stream.close(constants.NGHTTP2_CANCEL);
      return false;
    },
  };
}
