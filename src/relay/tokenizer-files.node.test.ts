import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { readTokenizer } from '../checkpoint/tokenizer.ts';
import { openModel } from './model/open-model.ts';
import { sessionFor } from './testing/bearer.ts';
import { benchPerTest } from './testing/bench-per-test.ts';
import { MODEL_DIR } from './testing/relay-bench.ts';

const start = benchPerTest();
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const CLIENT = { role: 'client', token: 'client-token-0123456789' } as const;

interface Listing {
  readonly name: string;
  readonly contextLength: number;
  readonly files: readonly { readonly name: string; readonly sha256: string; readonly size: number }[];
}

test('a client gets the files that GetTokenizer packs, by name, and no weights', async () => {
  const on = await start({ tokens: [CLIENT] });
  const headers = { authorization: `Bearer ${await sessionFor(on.webUrl, CLIENT.token)}` };
  const get = (path: string, more = {}) => fetch(`${on.webUrl}${path}`, { headers: { ...headers, ...more } });
  const answer = await get('/tokenizer/manifest.json');
  const listing = (await answer.json()) as Listing;
  expect(listing).toMatchObject({ name: on.relay.model.name, contextLength: on.relay.model.contextLength });
  const there = readdirSync(MODEL_DIR).filter((name) => name.endsWith('.json'));
  expect(listing.files.map(({ name }) => name)).toEqual(there.sort());
  for (const { name, sha256, size } of listing.files) {
    const whole = readFileSync(join(MODEL_DIR, name));
    const file = await get(`/tokenizer/files/${name}`);
    const bytes = Buffer.from(await file.arrayBuffer());
    expect([file.status, bytes.equals(whole), size], name).toEqual([200, true, whole.length]);
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(sha256);
    const known = { 'if-none-match': `"${sha256}"` };
    expect((await get(`/tokenizer/files/${name}`, known)).status).toBe(304);
  }
  const etag = answer.headers.get('etag')!;
  expect((await get('/tokenizer/manifest.json', { 'if-none-match': etag })).status).toBe(304);
  for (const path of ['model.safetensors', 'LICENSE', '', '..%2Fstories260K%2Fconfig.json', '%']) {
    expect((await get(`/tokenizer/files/${path}`)).status, path).toBe(404);
  }
  expect((await fetch(`${on.webUrl}/tokenizer/manifest.json`, { method: 'POST', headers })).status).toBe(405);
});

test('of a model in one .gguf they are those made of it, and they tokenize', async () => {
  const gguf = new URL('../testing/golden/gguf/stories260K-q8_0.gguf', import.meta.url).pathname;
  const cache = mkdtempSync(join(tmpdir(), 'shoal-tokenizer-files-'));
  folders.push(cache);
  const on = await start({ model: await openModel(gguf, { cache }) });
  const listing = (await (await fetch(`${on.webUrl}/tokenizer/manifest.json`)).json()) as Listing;
  const names = listing.files.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['config.json', 'tokenizer.json', 'tokenizer_config.json']));
  const text = async (name: string) => (await fetch(`${on.webUrl}/tokenizer/files/${name}`)).text();
  const of = async (read: (name: string) => Promise<string>) =>
    readTokenizer(await read('tokenizer.json'), await read('tokenizer_config.json'), 'here').encode('Once upon');
  expect(await of(text)).toEqual(await of((name) => readFile(join(MODEL_DIR, name), 'utf8')));
});

test('a folder that comes late is there for the next who asks', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-tokenizer-files-'));
  folders.push(folder);
  const model = await openModel(MODEL_DIR);
  const on = await start({ model: { ...model, folder: join(folder, 'later') } });
  const ask = () => fetch(`${on.webUrl}/tokenizer/manifest.json`).then(({ status }) => status);
  await expect(ask()).rejects.toThrow();
  symlinkSync(MODEL_DIR, join(folder, 'later'));
  writeFileSync(join(folder, 'tokenizer.json'), 'of another folder');
  expect(await ask()).toBe(200);
});
