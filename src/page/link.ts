const KEY = 'shoal.node-token';
/** Set where the page reloads itself while it shows a view that is no link to join. */
const REJOIN_KEY = 'shoal.rejoin';

/**
 * What the address's fragment asks for: `#join` joins at once, and `#join=TOKEN` with a token, which goes from the address
 * bar, and its history, at once. It stays in this tab's storage, for its reloads.
 */
export function takeLink(): { readonly join: boolean } {
  const [action, token] = splitOnce(location.hash.slice(1));
  if (action !== 'join') return { join: takeRejoin() };
  if (token !== undefined) {
    sessionStorage.setItem(KEY, token);
    history.replaceState(null, '', `${location.pathname}${location.search}#join`);
  }
  return { join: true };
}

function takeRejoin(): boolean {
  const rejoins = sessionStorage.getItem(REJOIN_KEY) !== null;
  sessionStorage.removeItem(REJOIN_KEY);
  return rejoins;
}

/** The next load of this page joins at once, and shows the view that is shown now. */
export function rejoinOnReload(): void {
  sessionStorage.setItem(REJOIN_KEY, '1');
}

/** The address joins no more: not by a reload, and not where a user goes back to it. */
export function forgetJoin(): void {
  sessionStorage.removeItem(REJOIN_KEY);
  if (location.hash === '#join') history.replaceState(null, '', `${location.pathname}${location.search}#node`);
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
