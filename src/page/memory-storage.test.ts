import { expect, test } from 'vitest';
import { replaceForbiddenStorage } from './memory-storage.ts';

test('where the browser forbids storage or has none, the page keeps its own; else it stays the browser’s', () => {
  const kept = { getItem: () => 'kept' };
  const forbidden = {
    get localStorage(): Storage {
      throw new DOMException('Access is denied for this document.', 'SecurityError');
    },
    sessionStorage: null as unknown as Storage,
  };
  const page = { localStorage: kept, sessionStorage: kept };
  replaceForbiddenStorage(page);
  expect([page.localStorage, page.sessionStorage]).toEqual([kept, kept]);

  replaceForbiddenStorage(forbidden);
  for (const storage of [forbidden.localStorage, forbidden.sessionStorage]) {
    expect(storage.getItem('a')).toBeNull();
    storage.setItem('a', '1');
    expect(storage.getItem('a')).toBe('1');
    storage.removeItem('a');
    expect(storage.getItem('a')).toBeNull();
  }
  expect(forbidden.localStorage).not.toBe(forbidden.sessionStorage);
});
