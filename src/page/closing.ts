import type { DetachKey } from '../node/messages.ts';

/**
 * Says Detach when the page goes away: the Web Worker may be stopped before its own call is out, a `keepalive` fetch
 * of the window is not. A page that comes back from the bfcache calls `onReturn`.
 */
export function detachOnClose(
  session: () => { readonly key: DetachKey; readonly authorization: string | undefined } | undefined,
  onReturn: () => void,
): void {
  addEventListener('pagehide', () => {
    const current = session();
    if (!current) return;
    const { key, authorization } = current;
    // Connect's unary protocol over JSON: https://connectrpc.com/docs/protocol
    void fetch('/shoal.relay.v1.NodeRelay/Detach', {
      method: 'POST',
      keepalive: true,
      headers: {
        'Content-Type': 'application/json',
        'Connect-Protocol-Version': '1',
        ...(authorization === undefined ? {} : { Authorization: authorization }),
      },
      body: JSON.stringify({ ...key, reason: 'the page was closed' }),
    }).catch(() => {});
  });
  addEventListener('pageshow', (event) => {
    if (event.persisted) onReturn();
  });
}
