import { Code, ConnectError } from '@connectrpc/connect';

const EXCHANGE_MS = 10_000;

export type Ask = typeof globalThis.fetch;

/**
 * Asks the relay: with the session that this page's token is exchanged for, where it has one, and anew once that session
 * is over (docs/security.md). `ask` is fetch, but rejects with ConnectError where the relay doesn't let this page in:
 * UNAUTHENTICATED without a token that counts, PERMISSION_DENIED with another role's.
 */
export class RelayAccess {
  /** Told each session: the page says Detach with it. */
  onSession: (() => void) | undefined;
  readonly #relayUrl: string;
  readonly #token: string | undefined;
  #session: string | undefined;
  #exchange: Promise<void> | undefined;

  constructor(relayUrl: string, token: string | undefined) {
    this.#relayUrl = relayUrl;
    this.#token = token;
  }

  /** Of the Authorization header; undefined where the relay asks for none, or before the first request. */
  get authorization(): string | undefined {
    return this.#session === undefined ? undefined : `Bearer ${this.#session}`;
  }

  readonly ask: Ask = async (input, init) => {
    if (this.#token !== undefined && this.#session === undefined) await this.#renew(undefined);
    const used = this.#session;
    let response = await this.#send(input, init);
    if (response.status === 401 && this.#token !== undefined) {
      await this.#renew(used);
      response = await this.#send(input, init);
    }
    if (response.status === 401 || response.status === 403) throw await refusalOf(response, this.#token);
    return response;
  };

  #send(input: Parameters<Ask>[0], init: RequestInit | undefined): Promise<Response> {
    const { authorization } = this;
    if (authorization === undefined) return fetch(input, init);
    const headers = new Headers(init?.headers);
    headers.set('authorization', authorization);
    return fetch(input, { ...init, headers });
  }

  /** One exchange, for all who find at the same time that the session they `used` is over. */
  #renew(used: string | undefined): Promise<void> {
    if (this.#session !== used) return Promise.resolve();
    this.#exchange ??= this.#exchangeToken().finally(() => {
      this.#exchange = undefined;
    });
    return this.#exchange;
  }

  async #exchangeToken(): Promise<void> {
    const response = await fetch(`${this.#relayUrl}/session`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
      body: '{}',
      signal: AbortSignal.timeout(EXCHANGE_MS),
    });
    if (response.status === 401 || response.status === 403) throw await refusalOf(response, this.#token);
    if (!response.ok) throw new Error(`/session: status ${response.status}`);
    const { sessionToken } = (await response.json()) as { sessionToken?: unknown };
    if (typeof sessionToken !== 'string' || !/^[\w-]{16,}$/.test(sessionToken)) {
      throw new Error('/session: the answer has no session');
    }
    this.#session = sessionToken;
    this.onSession?.();
  }
}

async function refusalOf(response: Response, token: string | undefined): Promise<ConnectError> {
  const text = await response.text().catch(() => '');
  if (response.status === 401) {
    return new ConnectError(
      token === undefined
        ? 'this relay asks for a token: open the link that you were given'
        : 'the relay does not take the token, or no longer',
      Code.Unauthenticated,
    );
  }
  return new ConnectError(`the relay does not let this page in: ${messageIn(text)}`, Code.PermissionDenied);
}

/** Of Connect's form of an error, or the text itself. */
function messageIn(text: string): string {
  try {
    return String((JSON.parse(text) as { message?: unknown }).message);
  } catch {
    return text.trim().slice(0, 200);
  }
}
