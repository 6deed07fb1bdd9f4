type Kept = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** What a page keeps until it is closed. */
class MemoryStorage implements Kept {
  readonly #items = new Map<string, string>();

  getItem(key: string): string | null {
    return this.#items.get(key) ?? null;
  }

  setItem(key: string, text: string): void {
    this.#items.set(key, text);
  }

  removeItem(key: string): void {
    this.#items.delete(key);
  }
}

/**
 * Puts storage in memory where a browser gives none: one that forbids a site to keep anything throws as soon as it is
 * asked for it, and no view would come.
 */
export function replaceForbiddenStorage(scope: object): void {
  for (const name of ['localStorage', 'sessionStorage']) {
    if (!offers(scope, name)) Object.defineProperty(scope, name, { value: new MemoryStorage(), configurable: true });
  }
}

function offers(scope: object, name: string): boolean {
  try {
    return Boolean((scope as Readonly<Record<string, unknown>>)[name]);
  } catch {
    return false;
  }
}
