import type { TunerStore } from '../engine/tuner-store.ts';

const DATABASE = 'shoal';
const STORE = 'tuner';
const LOCK = 'shoal-tuner';
/** Another tab may hold up an upgrade; a browser in a private window may never answer. */
const OPEN_MS = 5_000;

/** Texts by key in the browser's IndexedDB: a Web Worker has no localStorage. Rejects where the browser gives none. */
export class IndexedStore implements TunerStore {
  get(key: string): Promise<string | undefined> {
    return this.#request('readonly', (store) => store.get(key) as IDBRequest<string | undefined>);
  }

  async set(key: string, text: string): Promise<void> {
    await this.#request('readwrite', (store) => store.put(text, key));
  }

  async delete(key: string): Promise<void> {
    await this.#request('readwrite', (store) => store.delete(key));
  }

  async exclusively<T>(act: () => Promise<T>, waiting: AbortSignal): Promise<T> {
    let began = false;
    const locked = () => {
      began = true;
      return act();
    };
    try {
      return await navigator.locks.request(LOCK, { signal: waiting }, locked);
    } catch (error) {
      // Whoever holds the lock so long hangs; a browser that is to keep nothing gives no locks either.
      if (began) throw error;
      return act();
    }
  }

  async #request<T>(mode: IDBTransactionMode, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    const database = await openDatabase();
    try {
      const transaction = database.transaction(STORE, mode);
      const request = ask(transaction.objectStore(STORE));
      return await new Promise<T>((resolve, reject) => {
        transaction.oncomplete = () => resolve(request.result);
        transaction.onerror = () => reject(transaction.error);
        transaction.onabort = () => reject(transaction.error);
      });
    } finally {
      database.close();
    }
  }
}

function openDatabase(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      reject(new Error('IndexedDB does not open'));
    }, OPEN_MS);
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => {
      clearTimeout(timer);
      if (late) request.result.close();
      else resolve(request.result);
    };
    request.onerror = () => {
      clearTimeout(timer);
      reject(request.error);
    };
  });
}
