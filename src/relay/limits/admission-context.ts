import { type ConnectError, type ContextKey, type ContextValues, createContextKey } from '@connectrpc/connect';
import type { Admission } from './request-limiter.ts';

/** How a request was let in, or why it was not; undefined where nothing bounds who asks, as on the gRPC port. */
export const admissionKey: ContextKey<Admission | ConnectError | undefined> = createContextKey<
  Admission | ConnectError | undefined
>(undefined, { description: 'what bounds a request' });

export function admissionOf(values: ContextValues | undefined): Admission | ConnectError | undefined {
  return values?.get(admissionKey);
}
