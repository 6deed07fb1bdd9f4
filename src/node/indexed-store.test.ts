import { afterEach, expect, test, vi } from 'vitest';
import { IndexedStore } from './indexed-store.ts';

afterEach(() => {
  vi.unstubAllGlobals();
});

// Only a browser whose user forbids sites to keep anything refuses locks; tests can't ask for one.
test('a browser that gives no locks keeps nobody from trying kernels', async () => {
  const request = async () => {
    throw new DOMException('access to the Locks API is denied in this context', 'SecurityError');
  };
  vi.stubGlobal('navigator', { locks: { request } });
  expect(await new IndexedStore().exclusively(async () => 5, new AbortController().signal)).toBe(5);
});

test('what fails while the lock is held is no reason to try again', async () => {
  vi.stubGlobal('navigator', {
    locks: { request: async (_: string, __: unknown, act: () => Promise<unknown>) => act() },
  });
  let tries = 0;
  const failing = async () => {
    tries++;
    throw new Error('wrong');
  };
  await expect(new IndexedStore().exclusively(failing, new AbortController().signal)).rejects.toThrow('wrong');
  expect(tries).toBe(1);
});

test('a browser without IndexedDB is told by a rejection', async () => {
  vi.stubGlobal('indexedDB', {
    open: () => {
      throw new DOMException('denied', 'SecurityError');
    },
  });
  await expect(new IndexedStore().get('key')).rejects.toThrow('denied');
});
