import { type ContextValues, createContextKey, createContextValues } from '@connectrpc/connect';
import type { Role } from './roles.ts';

/** Whoever asks on the web port. */
export interface Principal {
  /** Undefined where no tokens are asked for: then everybody may do everything. */
  readonly role: Role | undefined;
  /** Of a session, the same for all its requests; of an address where there is no session. */
  readonly key: string;
  /** Where it asks from. */
  readonly address: string;
  /** Aborts, with the status to end with, when its session is over. */
  readonly ended: AbortSignal | undefined;
  /** Keeps its session alive until what it returns is called, once. */
  readonly hold?: () => () => void;
}

/** Gateways, whose port knows no roles. */
export const GATEWAY: Principal = { role: undefined, key: 'gateway', address: '', ended: undefined };

const key = createContextKey<Principal>(GATEWAY, { description: 'who asks' });

export function principalValues(principal: Principal): ContextValues {
  return createContextValues().set(key, principal);
}

/** Who asks, inside a service; a gateway where the request came over the gRPC port. */
export function principalOf(values: ContextValues): Principal {
  return values.get(key);
}
