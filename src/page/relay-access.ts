import { RelayAccess } from '../node/relay-access.ts';
import { nodeToken } from './link.ts';

let access: { readonly token: string | undefined; readonly access: RelayAccess } | undefined;

/** How this window's views ask its relay: with the token that the tab was opened with, where it was one. */
export function relayAccess(): RelayAccess {
  const token = nodeToken();
  if (!access || access.token !== token) access = { token, access: new RelayAccess(location.origin, token) };
  return access.access;
}
