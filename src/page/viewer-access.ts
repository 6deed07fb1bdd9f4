import { signal } from '@preact/signals';
import { RelayAccess } from '../node/relay-access.ts';
import { nodeToken } from './link.ts';

const KEY = 'shoal.viewer-token';

/** The token that was typed into this tab, for what it shows of the fleet and asks of the model; gone with the tab. */
export const viewerToken = signal<string | undefined>(sessionStorage.getItem(KEY) ?? undefined);

let made: { readonly token: string | undefined; readonly access: RelayAccess } | undefined;

/** How the Fleet and Playground views ask the relay: with the token that was typed in, else the one of the tab's link. */
export function viewerAccess(): RelayAccess {
  const token = viewerToken.value ?? nodeToken();
  if (!made || made.token !== token) made = { token, access: new RelayAccess(location.origin, token) };
  return made.access;
}

export function signIn(token: string): void {
  sessionStorage.setItem(KEY, token);
  viewerToken.value = token;
}

/** Forgets the token that was typed in. */
export function signOut(): void {
  sessionStorage.removeItem(KEY);
  viewerToken.value = undefined;
}
