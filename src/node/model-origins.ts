import { ConnectError } from '@connectrpc/connect';
import type { ManifestFile } from '../checkpoint/manifest.ts';
import { backoffMs } from './backoff.ts';
import { pause } from './pause.ts';
import type { Ask } from './relay-access.ts';
import { RelayUnreachableError } from './relay-unreachable-error.ts';

/** How long a model file may stand still before its download counts as failed, in milliseconds. */
export const STALL_MS = 30_000;

/** What is told while files come. */
export interface OriginsListener {
  /** The relay is out of reach, and is tried again; undefined: bytes come again. */
  onTrouble(trouble: string | undefined): void;
  /** Something went another way than it should, and on. */
  onNotice?(notice: string): void;
}

/**
 * Where a model's files are: at `bases`, one after the other, each a URL that a file's name goes behind, and at the relay,
 * where they are when all else fails. A place is left for good at its first failure that a second try doesn't mend.
 */
export class ModelOrigins {
  readonly #relayUrl: string;
  readonly #bases: string[];
  readonly #signal: AbortSignal;
  readonly #listener: OriginsListener;
  readonly #ask: Ask;

  constructor(
    relayUrl: string,
    bases: readonly string[],
    signal: AbortSignal,
    listener: OriginsListener,
    ask: Ask = fetch,
  ) {
    this.#relayUrl = relayUrl;
    this.#bases = [...bases];
    this.#signal = signal;
    this.#listener = listener;
    this.#ask = ask;
  }

  /** The URL that a file is asked for at just now. */
  nameOf(file: ManifestFile): string {
    return `${this.#bases[0] ?? `${this.#relayUrl}/model/files/`}${file.name}`;
  }

  /** Leaves a place whose bytes aren't the manifest's. False where it is the relay. */
  distrust(why: string): boolean {
    if (this.#bases.length === 0) return false;
    this.#leave(why);
    return true;
  }

  /**
   * Bytes `from` to `to` of a file; the rest of them is asked for again whenever a connection fails. Throws
   * RelayUnreachableError where the relay serves another model by now, ConnectError where it lets this page in no more, or
   * what `signal` was aborted for.
   */
  async *ranges(file: ManifestFile, from: number, to: number): AsyncGenerator<Uint8Array> {
    let failures = 0;
    for (let at = from; at < to; ) {
      const fromBase = this.#bases.length > 0;
      const url = this.nameOf(file);
      try {
        for await (const bytes of fromBase ? this.#atBase(url, at, to) : this.#atRelay(url, file, at, to)) {
          if (failures > 0) this.#listener.onTrouble(undefined);
          failures = 0;
          at += bytes.byteLength;
          yield bytes;
        }
      } catch (error) {
        this.#signal.throwIfAborted();
        if (error instanceof RelayUnreachableError || error instanceof ConnectError) throw error;
        if (fromBase) {
          // A connection may break; one that doesn't come to be again is no use.
          if (failures > 0 || !(error instanceof BrokenOffError)) {
            this.#leave(`${url}: ${(error as Error).message}`);
            failures = 0;
          } else failures++;
          continue;
        }
        this.#listener.onTrouble(`${url}: ${(error as Error).message}`);
        await pause(backoffMs(failures, Math.random), this.#signal);
        failures++;
      }
    }
  }

  #leave(why: string): void {
    this.#bases.shift();
    const next = this.#bases[0];
    this.#listener.onNotice?.(`${why}; ${next === undefined ? 'the relay' : new URL(next).host} is asked instead`);
  }

  #atRelay(url: string, file: ManifestFile, from: number, to: number): AsyncGenerator<Uint8Array> {
    return range(url, from, to, this.#signal, this.#ask, (response) => {
      const tag = response.headers.get('etag');
      if (response.status === 404 || (response.ok && tag !== null && tag !== `"${file.sha256}"`)) {
        throw new RelayUnreachableError(`${url}: the relay serves another model by now`);
      }
      if (response.status !== 206) throw new Error(`status ${response.status}`);
    });
  }

  #atBase(url: string, from: number, to: number): AsyncGenerator<Uint8Array> {
    const ask: Ask = async (input, init) => {
      try {
        const strange = {
          mode: 'cors',
          credentials: 'omit',
          referrerPolicy: 'no-referrer',
          cache: 'no-store',
        } as const;
        return await fetch(input, { ...init, ...strange });
      } catch (error) {
        this.#signal.throwIfAborted();
        // Browsers don't tell pages which it is.
        throw error instanceof TypeError
          ? new Error('it is out of reach, or lets no page of another site read it (CORS)')
          : error;
      }
    };
    return range(url, from, to, this.#signal, ask, ({ status }) => {
      if (status === 206) return;
      if (status === 401 || status === 403) throw new Error(`it asks for a login (status ${status})`);
      if (status === 404 || status === 410) throw new Error(`there is no such file (status ${status})`);
      if (status === 200) throw new Error('it sends whole files only, no ranges');
      throw new Error(`status ${status}`);
    });
  }
}

/** A connection that had begun to give bytes. */
class BrokenOffError extends Error {}

/** The bytes of one answer, once `check` has let it pass. */
async function* range(
  url: string,
  from: number,
  to: number,
  signal: AbortSignal,
  ask: Ask,
  check: (response: Response) => void,
): AsyncGenerator<Uint8Array> {
  const abort = new AbortController();
  const stall = () => abort.abort(new Error(`nothing came for ${STALL_MS / 1000} s`));
  let stalled = setTimeout(stall, STALL_MS);
  let left = to - from;
  try {
    const response = await ask(url, {
      headers: { range: `bytes=${from}-${to - 1}` },
      signal: AbortSignal.any([signal, abort.signal]),
    });
    check(response);
    if (!response.body) throw new Error('the answer has no body');
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      clearTimeout(stalled);
      left -= part.value.byteLength;
      if (left < 0) throw new Error('more bytes came than were asked for');
      yield part.value;
      stalled = setTimeout(stall, STALL_MS);
    }
    if (left > 0) throw new Error(`${left} bytes did not come`);
  } catch (error) {
    if (left === to - from || left < 0) throw error;
    throw new BrokenOffError((error as Error).message);
  } finally {
    clearTimeout(stalled);
    abort.abort();
  }
}
