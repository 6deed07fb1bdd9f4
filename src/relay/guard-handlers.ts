import { ConnectError } from '@connectrpc/connect';
import type { UniversalHandler, UniversalHandlerFn } from '@connectrpc/connect/protocol';
import { guardBody } from './guard-body.ts';
import { limitsOf } from './guard-limits.ts';
import { admissionOf } from './limits/admission-context.ts';
import type { Admission } from './limits/request-limiter.ts';
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
    const admission = admissionOf(request.contextValues);
    // Thrown where the body would be read, so that each protocol's own error comes of it.
    if (admission instanceof ConnectError) return handler({ ...request, body: failing(admission) });
    const budget = admission ? boundedBy(admission, settings.budget) : settings.budget;
    const type = request.header.get('content-type') ?? '';
    const form = {
      enveloped: /^application\/(grpc|connect\+)/i.test(type),
      json: /json/i.test(type),
    };
    return handler({
      ...request,
      body: guardBody(body, form, method, limits, budget, settings.receiveMs),
    });
  };
}

/** What is received counts for all, and for who sends it. */
export function boundedBy(admission: Admission, all: ReceivingBudget): Pick<ReceivingBudget, 'take' | 'release'> {
  return {
    take(bytes) {
      admission.takeBytes(bytes);
      all.take(bytes);
    },
    release: (bytes) => all.release(bytes),
  };
}

// biome-ignore lint/correctness/useYield: a body that only fails
async function* failing(error: ConnectError): AsyncGenerator<Uint8Array> {
  throw error;
}

function isByteStream(body: unknown): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
