import { setTimeout as delay } from 'node:timers/promises';
import { ModelError } from './model-error.ts';

/** How long the hub may say nothing. */
const STALL_MS = 30_000;
/** Failures in a row, of one request, after which the hub counts as out of reach. */
const MOST_FAILURES = 5;
const LONGEST_WAIT_MS = 10_000;
const MOST_REDIRECTS = 5;
/** Answers after which another try may go well. */
const TRANSIENT: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** The hub can't be reached, or breaks off: another try may go well. */
export class HubUnreachableError extends ModelError {}

/** What a client says to the hub of Hugging Face, or to one that speaks as it does. */
export class Hub {
  readonly endpoint: URL;
  readonly #token: string | undefined;
  readonly #firstWaitMs: number;

  /** `firstWaitMs`: before a request is made again; doubles with each failure. */
  constructor(endpoint: URL, token?: string, firstWaitMs = 500) {
    this.endpoint = endpoint;
    this.#token = token;
    this.#firstWaitMs = firstWaitMs;
  }

  /** By HF_ENDPOINT and HF_TOKEN. Throws ModelError where the former is no URL. */
  static fromEnvironment(env: NodeJS.ProcessEnv = process.env): Hub {
    const text = env.HF_ENDPOINT?.trim() || 'https://huggingface.co';
    const endpoint = URL.canParse(text) ? new URL(text) : undefined;
    if (!endpoint || !/^https?:$/.test(endpoint.protocol)) {
      throw new ModelError(`HF_ENDPOINT is ${JSON.stringify(text)}, not the URL of a hub`);
    }
    return new Hub(endpoint, env.HF_TOKEN?.trim() || undefined);
  }

  /** A path of the hub's, which may be one with a path of its own. */
  url(path: string): URL {
    return new URL(`${this.endpoint.href.replace(/\/$/, '')}${path}`);
  }

  /** A JSON answer, and the next page where it has one. `what` is what errors call that which is asked for. */
  async json(url: URL, what: string, signal?: AbortSignal): Promise<{ value: unknown; next: URL | undefined }> {
    return this.retrying(async () => {
      const { response, done } = await this.get(url, what, {}, signal);
      try {
        const value: unknown = await response.json();
        const next = /<([^>]+)>\s*;\s*rel="?next"?/.exec(response.headers.get('link') ?? '')?.[1];
        return { value, next: next === undefined ? undefined : new URL(next, url) };
      } catch (error) {
        throw unreachable(url, error);
      } finally {
        done();
      }
    }, signal);
  }

  /** Makes `attempt` until it does not throw HubUnreachableError, with waits between, a bounded number of times. */
  async retrying<T>(attempt: (failures: number) => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let failures = 0; ; failures++) {
      try {
        return await attempt(failures);
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof HubUnreachableError) || failures + 1 >= MOST_FAILURES) throw error;
        const ms = Math.min(LONGEST_WAIT_MS, this.#firstWaitMs * 2 ** failures);
        await delay(ms, undefined, signal ? { signal } : {}).catch(() => signal?.throwIfAborted());
      }
    }
  }

  /**
   * An answer with a status of 2xx or 416, redirects followed. The token goes to the endpoint's own origin and nowhere
   * else. `beat` is to be called with each stretch of the body, `done` at its end: silence ends the connection. Throws
   * HubUnreachableError, or ModelError with a reason that its user can do something about.
   */
  async get(
    first: URL,
    what: string,
    headers: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<{ response: Response; beat: () => void; done: () => void }> {
    const abort = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const done = () => clearTimeout(timer);
    const beat = () => {
      done();
      timer = setTimeout(() => abort.abort(new Error(`nothing came for ${STALL_MS / 1000} s`)), STALL_MS);
    };
    beat();
    const signals = signal ? AbortSignal.any([signal, abort.signal]) : abort.signal;
    try {
      let url = first;
      for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
        const response = await this.#fetch(url, headers, signals);
        const location = response.headers.get('location');
        if (response.status >= 300 && response.status < 400 && location !== null) {
          await response.body?.cancel();
          url = new URL(location, url);
          continue;
        }
        if (response.ok || response.status === 416) return { response, beat, done };
        await response.body?.cancel();
        throw this.#refusal(response, url, what);
      }
      throw new ModelError(`${what}: ${first.origin} redirects without end`);
    } catch (error) {
      done();
      signal?.throwIfAborted();
      throw error instanceof ModelError ? error : unreachable(first, error);
    }
  }

  #fetch(url: URL, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Response> {
    const token = this.#token !== undefined && url.origin === this.endpoint.origin ? this.#token : undefined;
    return fetch(url, {
      redirect: 'manual',
      signal,
      headers: {
        // Ranges and sizes are those of the file itself.
        'accept-encoding': 'identity',
        'user-agent': 'shoal',
        ...headers,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
    });
  }

  #refusal({ status, headers }: Response, url: URL, what: string): ModelError {
    const { host } = this.endpoint;
    if (TRANSIENT.has(status)) return new HubUnreachableError(`${what}: ${url.host} answers with status ${status}`);
    if (url.origin !== this.endpoint.origin) {
      return new HubUnreachableError(`${what}: ${url.host}, where ${host} sends for it, answers with status ${status}`);
    }
    const code = headers.get('x-error-code');
    if (status === 401) {
      return new ModelError(
        this.#token === undefined
          ? `${what}: ${host} asks who wants it; it may not exist, or be private: set HF_TOKEN to a token that may read it`
          : `${what}: ${host} does not take the token in HF_TOKEN`,
      );
    }
    if (status === 403 || code === 'GatedRepo') {
      return new ModelError(
        code === 'GatedRepo'
          ? `${what}: its owner asks for consent: give it on its page at ${host}, and set HF_TOKEN to a token of that account`
          : `${what}: ${host} does not let the token in HF_TOKEN read it`,
      );
    }
    if (status === 404) {
      const missing: Readonly<Record<string, string>> = {
        RepoNotFound: 'there is no such repository',
        RevisionNotFound: 'there is no such revision',
        EntryNotFound: 'there is no such file',
      };
      return new ModelError(`${what}: ${missing[code ?? ''] ?? 'there is no such thing'} at ${host}`);
    }
    return new ModelError(`${what}: ${host} answers with status ${status}`);
  }
}

export function unreachable(url: URL, error: unknown): HubUnreachableError {
  const { message, cause } = error as Error;
  const reason = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : undefined;
  return new HubUnreachableError(`${url.host} can't be reached: ${reason ?? message}`);
}
