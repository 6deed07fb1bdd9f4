import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { Code } from '@connectrpc/connect';
import { codeToHttpStatus, errorToJsonBytes } from '@connectrpc/connect/protocol-connect';
import type { Logger } from 'pino';
import { stopUpload } from './answer-http2.ts';
import { dropRest } from './drop-rest.ts';
import { gatherBody } from './gather-body.ts';
import { boundedBy } from './guard-handlers.ts';
import type { ReceivingBudget } from './receiving-budget.ts';
import { toConnectError } from './to-connect-error.ts';
import type { DirectAnswer, DirectCaller } from './web/web-requests.ts';

/** Larger bodies may come in many pieces, and go Connect's way. */
const MOST_BYTES = 64 * 1024;

export interface UnaryAnswerParts {
  /** Its name, for the log. */
  readonly rpc: string;
  /** The answer's bytes for a request's. Throws ConnectError or ContractError. */
  readonly call: (request: Uint8Array) => Uint8Array;
  readonly maxBytes: number;
  readonly budget: ReceivingBudget;
  /** How long a body may take to come. */
  readonly receiveMs: number;
  readonly log: Logger;
}

/**
 * Answers a unary call of the Connect protocol as Connect does, for the one form that nodes send all the time: binary, not
 * compressed, without a deadline, of a length told. A report takes Connect's handler a millisecond, more than all that is done with it.
 */
export class UnaryAnswer implements DirectAnswer {
  private readonly parts: UnaryAnswerParts;

  constructor(parts: UnaryAnswerParts) {
    this.parts = parts;
  }

  /** Whether a request has that form. */
  takes(headers: IncomingHttpHeaders): boolean {
    const length = Number(headers['content-length'] ?? Number.NaN);
    return (
      headers['content-type'] === 'application/proto' &&
      headers['content-encoding'] === undefined &&
      headers['connect-timeout-ms'] === undefined &&
      length <= Math.min(MOST_BYTES, this.parts.maxBytes)
    );
  }

  /** Reads the request and answers it, over HTTP/1.1 or HTTP/2. */
  async answer(request: IncomingMessage, response: ServerResponse, { admission, ended }: DirectCaller): Promise<void> {
    const { receiveMs } = this.parts;
    const budget = boundedBy(admission, this.parts.budget);
    try {
      const body = await gatherBody(request, Number(request.headers['content-length']), budget, receiveMs);
      // Who asked has gone.
      if (!body) return;
      ended?.throwIfAborted();
      send(response, 200, 'application/proto', this.parts.call(body));
    } catch (error) {
      this.refuse(response, error);
      if (request.readableEnded) return;
      if (request.httpVersionMajor < 2) setImmediate(() => dropRest(request));
      else stopUpload((request as unknown as Http2ServerRequest).stream);
    }
  }

  private refuse(response: ServerResponse, cause: unknown): void {
    const error = toConnectError(cause);
    const { log, rpc } = this.parts;
    if (error.code === Code.Internal) log.error({ err: error.cause ?? error, rpc }, 'rpc failed');
    if (response.headersSent) {
      response.destroy();
      return;
    }
    error.metadata.forEach((value, name) => {
      response.setHeader(name, value);
    });
    send(response, codeToHttpStatus(error.code), 'application/json', errorToJsonBytes(error, undefined));
  }
}

function send(response: ServerResponse, status: number, type: string, body: Uint8Array): void {
  response.writeHead(status, { 'content-type': type, 'content-length': body.byteLength });
  // As text, byte for byte, it goes out with the head in one piece.
  response.end(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1'), 'latin1');
}
