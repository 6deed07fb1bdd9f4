import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Browser, BrowserContext, BrowserContextOptions } from 'playwright-core';

/** The page's database (src/node/indexed-store.ts): what its self-test and tuner found. */
const DATABASE = 'shoal';

/** A database as Playwright tells of it. */
interface Database {
  readonly name: string;
}

/**
 * What pages of earlier commands kept of their GPU. A command opens a browser without a past: without this, it would try
 * the same kernels at each start. Nothing else is kept, no cookie and no token.
 */
export class BrowserMemory {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** A context whose pages of `origin` find what was kept; one without it where that can't be. */
  async open(browser: Browser, origin: string, options: BrowserContextOptions): Promise<BrowserContext> {
    const kept = await this.#read();
    if (kept.length === 0) return browser.newContext(options);
    // Playwright's types don't tell of databases.
    const origins = [{ origin, localStorage: [], indexedDB: kept }];
    // What is damaged so that a browser does not take it is as good as nothing.
    return browser
      .newContext({ ...options, storageState: { cookies: [], origins } })
      .catch(() => browser.newContext(options));
  }

  /** Keeps what pages of `origin` have by now. A disk that is full, or none, keeps nothing. */
  async keep(context: BrowserContext, origin: string): Promise<void> {
    try {
      const { origins } = await context.storageState({ indexedDB: true });
      const own = origins.find((one) => one.origin === origin) as { indexedDB?: readonly Database[] } | undefined;
      const databases = (own?.indexedDB ?? []).filter(({ name }) => name === DATABASE);
      const text = JSON.stringify(databases);
      if (databases.length === 0 || text === JSON.stringify(await this.#read())) return;
      await mkdir(dirname(this.#path), { recursive: true });
      const temporary = `${this.#path}.${process.pid}`;
      await writeFile(temporary, text);
      await rename(temporary, this.#path);
    } catch {
      // The next start tries its kernels again.
    }
  }

  async #read(): Promise<readonly Database[]> {
    try {
      const value: unknown = JSON.parse(await readFile(this.#path, 'utf8'));
      return Array.isArray(value) ? value.filter((one) => one?.name === DATABASE) : [];
    } catch {
      return [];
    }
  }
}
