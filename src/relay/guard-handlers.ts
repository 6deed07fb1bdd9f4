import type { UniversalHandler, UniversalHandlerFn } from '@connectrpc/connect/protocol';
import { guardBody } from './guard-body.ts';
import { limitsOf } from './guard-limits.ts';
import type { ReceivingBudget } from './receiving-budget.ts';
import type { ServedModel } from './served-model.ts';

export interface GuardSettings {
  readonly model: ServedModel;
  readonly budget: ReceivingBudget;
  readonly readMaxBytes: number;
  readonly receiveMs: number;
}

/** The handlers by path, each behind a guard of its request body. */
export function guardHandlers(
  handlers: readonly UniversalHandler[],
  settings: GuardSettings,
): ReadonlyMap<string, UniversalHandlerFn> {
  return new Map(handlers.map((handler) => [handler.requestPath, guardHandler(handler, settings)]));
}

function guardHandler(handler: UniversalHandler, settings: GuardSettings): UniversalHandlerFn {
  const { method } = handler;
  // Of these there is the reflection service only, whose router reads no message over 64 KiB.
  if (method.methodKind === 'bidi_streaming' || method.methodKind === 'client_streaming') return handler;
  const limits = limitsOf(method, settings.model, settings.readMaxBytes);
  return (request) => {
    const { body } = request;
    if (!isByteStream(body)) return handler(request);
    const type = request.header.get('content-type') ?? '';
    const form = {
      enveloped: /^application\/(grpc|connect\+)/i.test(type),
      json: /json/i.test(type),
    };
    return handler({
      ...request,
      body: guardBody(body, form, method, limits, settings.budget, settings.receiveMs),
    });
  };
}

function isByteStream(body: unknown): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
