import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { ConnectError, type ContextValues } from '@connectrpc/connect';
import type { UniversalHandlerFn } from '@connectrpc/connect/protocol';
import type { Logger } from 'pino';
import { answerHttp1 } from '../answer-http1.ts';
import { answerHttp2 } from '../answer-http2.ts';
import type { WebAccess } from '../auth/access.ts';
import { type Access, pathAccess } from '../auth/access-table.ts';
import { type Principal, principalValues } from '../auth/principal.ts';
import { frameSinkKey } from '../frame-sink.ts';
import { frameTypeOf, http1FrameSink, http2FrameSink } from '../frame-sinks.ts';
import { addressKey, plainAddress } from '../limits/address-key.ts';
import { admissionKey } from '../limits/admission-context.ts';
import type { Admission, Limit, RequestLimiter } from '../limits/request-limiter.ts';
import type { WebHosts } from './hosts.ts';
import { refuse, refuseAs } from './refuse.ts';
import { SECURITY_HEADERS } from './security-headers.ts';

/** What answers a path that is no rpc. */
export type Answer = (request: IncomingMessage, response: ServerResponse, path: string) => Promise<void> | void;

/** Answers one form of an rpc past Connect. */
export interface DirectAnswer {
  takes(headers: IncomingHttpHeaders): boolean;
  answer(request: IncomingMessage, response: ServerResponse, caller: DirectCaller): Promise<void>;
}

export interface DirectCaller {
  readonly admission: Admission;
  readonly ended: AbortSignal | undefined;
}

export interface WebParts {
  readonly handlers: ReadonlyMap<string, UniversalHandlerFn>;
  /** Answers to the calls that come most, by path; each has a handler too, for their other forms. */
  readonly direct: ReadonlyMap<string, DirectAnswer>;
  /** Of each handler: who may call it. */
  readonly rpcs: ReadonlyMap<string, Access>;
  readonly access: WebAccess;
  readonly hosts: WebHosts;
  readonly limiter: RequestLimiter;
  readonly limits: { readonly node: Limit; readonly client: Limit; readonly host: Limit };
  /** Whether hosts are bounded one by one: not where all come through one address. */
  readonly boundsHost: (address: string) => boolean;
  readonly answer: Answer;
  readonly stallMs: number;
  readonly log: Logger;
}

/** How long an answer may go on once its session is over. */
const CUT_MS = 1_000;
/** Of rpcs: a form of another site can send none of these unasked, as it can text/plain. */
const RPC_TYPE = /^application\/(?:json|proto|connect\+(?:json|proto)|grpc-web(?:\+(?:json|proto))?)\s*(?:;|$)/i;

/** Takes what is asked for on the web port: checks where it comes from and who asks, bounds it, and has it answered. */
export class WebRequests {
  private readonly parts: WebParts;

  /** Throws where an rpc would be served of which nothing says to whom. */
  constructor(parts: WebParts) {
    for (const path of parts.handlers.keys()) {
      if (!parts.rpcs.has(path)) throw new Error(`${path} has no row in the table of access.`);
    }
    this.parts = parts;
  }

  readonly take = (request: IncomingMessage, response: ServerResponse): void => {
    response.on('error', () => {});
    this.serve(request, response).catch((error: unknown) => {
      this.parts.log.error({ err: error }, 'web request failed');
      response.destroy();
    });
  };

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { parts } = this;
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.setHeader(name, value);
    const host = (request.headers as Record<string, string | undefined>)[':authority'] ?? request.headers.host;
    if (!parts.hosts.allowsHost(host)) {
      refuseAs(request, response, 421, 'This relay does not go by that name: start it with --host NAME.');
      return;
    }
    const path = (request.url ?? '/').split('?', 1)[0] as string;
    const handler = parts.handlers.get(path);
    const access = handler ? parts.rpcs.get(path)! : pathAccess(path);
    // The page itself is what links of other sites may lead to.
    if ((access !== 'public' || path === '/session') && !parts.hosts.allowsSource(request.headers, host)) {
      refuseAs(request, response, 403, 'The request comes from another site.');
      return;
    }
    if ((handler || path === '/session') && !isCall(request, response, handler !== undefined)) return;
    const address = plainAddress(request.socket.remoteAddress ?? '');
    let principal: Principal;
    try {
      principal = this.principal(request, path, access, address);
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      this.refuseStranger(request, response, address, error);
      return;
    }
    const admission = this.admitBody(request, principal);
    if (!(admission instanceof ConnectError)) response.once('close', () => admission.release());
    hold(principal, response);
    const direct = parts.direct.get(path);
    if (direct?.takes(request.headers) && !(admission instanceof ConnectError))
      await direct.answer(request, response, { admission, ended: principal.ended });
    else if (handler)
      await this.call(request, response, handler, principalValues(principal).set(admissionKey, admission), principal);
    else if (admission instanceof ConnectError) refuse(request, response, admission);
    else if (path === '/session') this.exchange(request, response, address);
    else await parts.answer(request, response, path);
  }

  private principal(request: IncomingMessage, path: string, access: Access, address: string): Principal {
    const { access: door } = this.parts;
    // What scrapes metrics can't exchange tokens.
    if (path === '/metrics' && door.asksTokens && door.isOperatorToken(request.headers)) {
      return { role: 'operator', key: `operator ${address}`, address, ended: undefined };
    }
    return door.principal(request.headers, access, address);
  }

  private exchange(request: IncomingMessage, response: ServerResponse, address: string): void {
    try {
      const { access, boundsHost } = this.parts;
      const { headers } = request;
      const { token, role, expiresInMs } = access.exchange(headers, addressKey(address), boundsHost(address));
      response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
      response.end(JSON.stringify({ sessionToken: token, role, expiresInMs }));
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      refuse(request, response, error);
    }
  }

  /** Who is refused has asked all the same, and is bounded in that too. */
  private refuseStranger(request: IncomingMessage, response: ServerResponse, address: string, why: ConnectError): void {
    const admission = this.admit({ role: undefined, key: address, address, ended: undefined });
    if (admission instanceof ConnectError) refuse(request, response, admission);
    else {
      admission.release();
      refuse(request, response, why);
    }
  }

  /** Lets a request in whose body has the room that its head asks for: what is refused later was read in vain. */
  private admitBody(request: IncomingMessage, principal: Principal): Admission | ConnectError {
    const admission = this.admit(principal);
    const bytes = Number(request.headers['content-length'] ?? 0);
    if (admission instanceof ConnectError || !(bytes > 0)) return admission;
    try {
      admission.expectBytes(bytes);
      return admission;
    } catch (error) {
      admission.release();
      if (error instanceof ConnectError) return error;
      throw error;
    }
  }

  private admit({ role, key, address }: Principal): Admission | ConnectError {
    const { limits, limiter, boundsHost } = this.parts;
    const keys: [string, Limit][] = [];
    if (role !== undefined) keys.push([key, role === 'node' ? limits.node : limits.client]);
    if (boundsHost(address)) keys.push([`host ${addressKey(address)}`, limits.host]);
    try {
      return limiter.admit(keys);
    } catch (error) {
      if (error instanceof ConnectError) return error;
      throw error;
    }
  }

  private call(
    request: IncomingMessage,
    response: ServerResponse,
    handler: UniversalHandlerFn,
    contextValues: ContextValues,
    { ended }: Principal,
  ): Promise<void> {
    const { stallMs } = this.parts;
    const type = frameTypeOf(request.headers['content-type']);
    const http2 = request.httpVersionMajor < 2 ? undefined : (request as unknown as Http2ServerRequest);
    const settings = { stallMs, headersFirst: false, trailers: false, headers: SECURITY_HEADERS };
    if (type) {
      const head = { ...SECURITY_HEADERS, 'content-type': type };
      const sink = http2 ? http2FrameSink(http2.stream, head, settings) : http1FrameSink(response, type, stallMs);
      contextValues.set(frameSinkKey, sink);
    }
    const context = { contextValues, ...(ended ? { ended } : {}) };
    if (!http2) return answerHttp1(request, response, handler, context, stallMs);
    return answerHttp2(http2.stream, http2.headers, handler, context, settings);
  }
}

/** Of calls, which change things: POST only, and no body that a form of another site might send. */
function isCall(request: IncomingMessage, response: ServerResponse, rpc: boolean): boolean {
  const type = request.headers['content-type'] ?? '';
  if (request.method !== 'POST') refuseAs(request, response, 405, 'It must be a POST.', { allow: 'POST' });
  else if (rpc ? !RPC_TYPE.test(type) : !/^application\/json\s*(?:;|$)/i.test(type)) {
    refuseAs(request, response, 415, 'That content type is not served.');
  } else return true;
  return false;
}

/** An answer under way keeps its session alive, and ends with it. */
function hold(principal: Principal, response: ServerResponse): void {
  const { ended } = principal;
  if (!ended) return;
  const release = principal.hold?.();
  // Streams of rpcs end with their own status; this cuts what has none, such as a file.
  const cut = () => setTimeout(() => response.destroy(), CUT_MS).unref();
  ended.addEventListener('abort', cut, { once: true });
  response.once('close', () => {
    ended.removeEventListener('abort', cut);
    release?.();
  });
}
