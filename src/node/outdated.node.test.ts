import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { benchPerTest } from '../relay/testing/bench-per-test.ts';
import type { JoinRequest } from './messages.ts';
import { outdated } from './outdated.ts';

const start = benchPerTest();
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const OTHER = 'f'.repeat(64);
const joinOf = (relayUrl: string, pageHash: string) =>
  ({ relayUrl, build: { packageVersion: '1', pageHash } }) as JoinRequest;

test('of a page that is of another time, the page is; else the model, where that is', async () => {
  const pageDir = mkdtempSync(join(tmpdir(), 'shoal-outdated-'));
  folders.push(pageDir);
  writeFileSync(join(pageDir, 'index.html'), '<meta name="shoal-build" content="1 own">');
  const on = await start({ pageDir });
  const { signal } = new AbortController();
  const of = (pageHash: string, digest: string) => outdated(joinOf(on.webUrl, pageHash), digest, signal);
  const { digest } = on.relay.model;
  expect([
    await of('own', digest),
    await of('own', OTHER),
    await of('other', digest),
    await of('other', OTHER),
  ]).toEqual([undefined, 'model', 'page', 'page']);
  await on.relay.close();
  expect(await of('own', OTHER)).toBe('unknown');
});

test('a relay without a page of its own still has another model', async () => {
  const on = await start();
  expect(await outdated(joinOf(on.webUrl, 'own'), OTHER, new AbortController().signal)).toBe('model');
});
