import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { TunerStore } from '../engine/tuner-store.ts';

/** Texts by key in a JSON file: what a browser's IndexedDB is for a page. A file that is none is replaced. */
export class FileStore implements TunerStore {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  async get(key: string): Promise<string | undefined> {
    return (await this.#read()).get(key);
  }

  set(key: string, text: string): Promise<void> {
    return this.#change((texts) => texts.set(key, text));
  }

  delete(key: string): Promise<void> {
    return this.#change((texts) => texts.delete(key));
  }

  async #read(): Promise<Map<string, string>> {
    try {
      const value: unknown = JSON.parse(await readFile(this.#path, 'utf8'));
      const entries = Object.entries(value as Record<string, unknown>);
      return new Map(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
    } catch {
      return new Map();
    }
  }

  /** Whoever reads meanwhile finds the old file or the new one, both whole. */
  async #change(change: (texts: Map<string, string>) => unknown): Promise<void> {
    const texts = await this.#read();
    change(texts);
    await mkdir(dirname(this.#path), { recursive: true });
    const own = `${this.#path}.${process.pid}`;
    await writeFile(own, JSON.stringify(Object.fromEntries(texts)));
    await rename(own, this.#path);
  }
}
