const KEY = 'shoal.node-token';

/**
 * What the address's fragment asks for: `#join` joins at once, and `#join=TOKEN` with a token, which goes from the address
 * bar, and its history, at once. It stays in this tab's storage, for its reloads.
 */
export function takeLink(): { readonly join: boolean } {
  const [action, token] = splitOnce(location.hash.slice(1));
  if (action !== 'join') return { join: false };
  if (token !== undefined) {
    sessionStorage.setItem(KEY, token);
    history.replaceState(null, '', `${location.pathname}${location.search}#join`);
  }
  return { join: true };
}

/** The token that this tab was opened with; undefined where it was none. */
export function nodeToken(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined;
}

/** Tokens may end with `=`. */
function splitOnce(text: string): [string, string?] {
  const at = text.indexOf('=');
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
