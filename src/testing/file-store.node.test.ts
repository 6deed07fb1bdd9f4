import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { FileStore } from './file-store.node.ts';

const folder = mkdtempSync(join(tmpdir(), 'shoal-store-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('keeps texts from one run to the next, and leaves no other file behind', async () => {
  const path = join(folder, 'new', 'tuner.json');
  const store = new FileStore(path);
  expect(await store.get('a')).toBeUndefined();
  await store.set('a', 'one');
  await store.set('b', '{"two": 2}');
  await store.delete('c');
  const later = new FileStore(path);
  expect(await later.get('a')).toBe('one');
  expect(await later.get('b')).toBe('{"two": 2}');
  await later.delete('a');
  expect(await store.get('a')).toBeUndefined();
  expect(readdirSync(join(folder, 'new'))).toEqual(['tuner.json']);
});

test.each(['', '[', '5', 'null', '"text"', '{"a": 5}'])('a file of %j has nothing, and is replaced', async (text) => {
  const path = join(folder, 'broken.json');
  writeFileSync(path, text);
  const store = new FileStore(path);
  expect(await store.get('a')).toBeUndefined();
  await store.set('a', 'one');
  expect(await store.get('a')).toBe('one');
});
