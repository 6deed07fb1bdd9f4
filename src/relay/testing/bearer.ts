import type { Interceptor } from '@connectrpc/connect';

/** Sends a session of the web port along. */
export function bearer(sessionToken: string): Interceptor {
  return (next) => (request) => {
    request.header.set('authorization', `Bearer ${sessionToken}`);
    return next(request);
  };
}

/** Exchanges a token for a session, as a page does. */
export async function sessionFor(webUrl: string, token: string): Promise<string> {
  const answer = await fetch(`${webUrl}/session`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{}',
  });
  if (!answer.ok) throw new Error(`/session answers ${answer.status}: ${await answer.text()}`);
  return ((await answer.json()) as { sessionToken: string }).sessionToken;
}
