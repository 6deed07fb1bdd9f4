import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { LocalHub } from '../testing/local-hub.ts';
import { Hub } from './hub.ts';
import { fetchHubModel } from './hub-model.ts';
import { type HubReference, readModelReference } from './model-reference.ts';

vi.setConfig({ testTimeout: 30_000 });

const MODEL = new URL('../../../models/stories260K/', import.meta.url);
const GGUF = new URL('../../testing/golden/gguf/stories260K-q8_0.gguf', import.meta.url);
const REPOSITORY = 'someone/stories';
const TOKEN = 'hf_secret';
const names = ['config.json', 'generation_config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'];

function stories(): Record<string, Buffer> {
  const files = Object.fromEntries(names.map((name) => [name, readFileSync(new URL(name, MODEL))]));
  const unneeded = Buffer.alloc(200_000);
  return {
    ...files,
    'README.md': Buffer.from('# hello'),
    'pytorch_model.bin': unneeded,
    'original/params.json': unneeded,
  };
}

let cache: string;
let hub: LocalHub;
let lines: string[];
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), 'shoal-hub-'));
  lines = [];
});
afterEach(async () => {
  await hub.close();
  rmSync(cache, { recursive: true });
});

async function serve(files: Record<string, Buffer> = stories()): Promise<void> {
  hub = await LocalHub.start(REPOSITORY, files);
}

function get(reference: string = `hf:${REPOSITORY}`, token?: string) {
  const client = new Hub(new URL(hub.url), token, 5);
  const options = { cache, onProgress: (line: string) => void lines.push(line) };
  return fetchHubModel(readModelReference(reference) as HubReference, client, options);
}

function expectWhole(folder: string): void {
  expect(readdirSync(folder).sort()).toEqual(names);
  for (const name of names)
    expect(readFileSync(join(folder, name)).equals(readFileSync(new URL(name, MODEL)))).toBe(true);
}

describe('a model of the hub', () => {
  test('comes with the files that it needs, once, pinned to a commit', async () => {
    await serve();
    const first = await get();
    expect(first).toEqual({
      kind: 'folder',
      path: join(cache, 'hub', new URL(hub.url).host.replace(':', '_'), 'someone--stories', hub.commit),
      url: `${hub.url}/${REPOSITORY}/resolve/${hub.commit}/`,
    });
    expectWhole(first.path);
    expect(hub.asks.map(({ path }) => path).filter((path) => /README|pytorch|original/.test(path))).toEqual([]);
    const before = hub.asks.length;
    expect(await get()).toEqual(first);
    // The branch is asked for again, and nothing else.
    expect(hub.asks.slice(before).map(({ path }) => path)).toEqual([`/api/models/${REPOSITORY}/revision/main`]);
    // A commit is what it is.
    expect(await get(`hf:${REPOSITORY}@${hub.commit}`)).toEqual(first);
    expect(hub.asks).toHaveLength(before + 1);
    expect(await get(`hf:${REPOSITORY}@refs%2Fpr%2F1`)).toEqual(first);
  });

  test('is what it was where the hub is out of reach', async () => {
    await serve();
    const first = await get();
    hub.faults.refuse = { status: 503 };
    expect(await get()).toEqual(first);
    expect(lines.at(-1)).toMatch(/status 503; what hf:someone\/stories was before is served/);
  });

  test('tells the token to the hub alone', async () => {
    await serve();
    await get(undefined, TOKEN);
    const [own, others] = [hub.url, hub.cdnUrl].map((url) => hub.asks.filter(({ host }) => host === new URL(url).host));
    expect(own!.length).toBeGreaterThan(0);
    expect(own!.every(({ authorization }) => authorization === `Bearer ${TOKEN}`)).toBe(true);
    expect(others!.length).toBeGreaterThan(0);
    expect(others!.every(({ authorization }) => authorization === undefined)).toBe(true);
    expect(lines.join()).not.toContain(TOKEN);
  });

  test('goes on after cuts where it was', async () => {
    await serve();
    Object.assign(hub.faults, { cutAfter: 150_000, cuts: 20 });
    expectWhole((await get()).path);
    const weights = hub.downloads.filter(({ path }) => path === '/cdn/model.safetensors');
    expect(weights.map(({ range }) => range?.replace(/\D/g, '')).slice(0, 4)).toEqual([
      undefined,
      '150000',
      '300000',
      '450000',
    ]);
    expect(weights.slice(1).every(({ ifRange }) => /^"[0-9a-f]{64}"$/.test(ifRange ?? ''))).toBe(true);
  });

  test('goes on at another start', async () => {
    await serve();
    Object.assign(hub.faults, { cutAfter: 150_000, cuts: 1, busyAfterCuts: true });
    const stop = new AbortController();
    const patient = new Hub(new URL(hub.url), undefined, 60_000);
    const options = { cache, onProgress: () => {}, signal: stop.signal };
    const first = fetchHubModel(readModelReference(`hf:${REPOSITORY}`) as HubReference, patient, options);
    const stopped = expect(first).rejects.toThrow('stopped');
    // After the cut the hub is busy, and whoever started the relay loses patience.
    const weights = () => hub.downloads.filter(({ path }) => path === '/cdn/model.safetensors');
    await vi.waitFor(() => expect(weights()).toHaveLength(2));
    stop.abort(new Error('stopped'));
    await stopped;
    hub.faults.busyAfterCuts = false;
    expectWhole((await get()).path);
    expect(weights().slice(2)).toMatchObject([
      { range: 'bytes=150000-', ifRange: expect.stringMatching(/^"[0-9a-f]{64}"$/) },
    ]);
  });

  test('comes whole where the hub has no ranges or other ETags each time', async () => {
    for (const fault of ['noRanges', 'newTags'] as const) {
      await serve();
      Object.assign(hub.faults, { cutAfter: 150_000, cuts: 2, [fault]: true });
      expectWhole((await get()).path);
      await hub.close();
    }
  });

  test('is refused where its hash is another, and what came is not kept', async () => {
    await serve();
    hub.faults.corrupt = true;
    await expect(get()).rejects.toThrow(/with another hash than it tells/);
    hub.faults.corrupt = false;
    expectWhole((await get()).path);
  });

  test('comes anew where what was begun was of another file', async () => {
    await serve();
    const { path } = await get();
    const name = 'model.safetensors';
    rmSync(join(path, name));
    writeFileSync(join(path, `${name}.partial`), Buffer.alloc(1_000, 7));
    expectWhole((await get()).path);
  });

  test('waits while the hub is busy, and no longer than it helps', async () => {
    await serve();
    hub.faults.statuses = [503, 429, 500];
    expectWhole((await get()).path);
    rmSync(cache, { recursive: true });
    hub.faults.statuses = Array.from({ length: 50 }, () => 503);
    await expect(get()).rejects.toThrow(/answers with status 503/);
    expect(hub.faults.statuses.length).toBeGreaterThan(40);
  });

  test.each([
    [{ status: 401 }, undefined, /^hf:someone\/stories@main: 127\.\S+ asks who wants it; .*set HF_TOKEN/],
    [{ status: 401 }, TOKEN, /does not take the token in HF_TOKEN$/],
    [{ status: 403, code: 'GatedRepo' }, TOKEN, /its owner asks for consent/],
    [{ status: 403 }, TOKEN, /does not let the token in HF_TOKEN read it$/],
    [{ status: 404, code: 'RepoNotFound' }, undefined, /there is no such repository at 127/],
    [{ status: 418 }, undefined, /answers with status 418$/],
  ])('%j is told in a sentence', async (refuse, token, message) => {
    await serve();
    hub.faults.refuse = refuse;
    const error = await get(undefined, token).catch((reason: Error) => reason);
    expect(error).toMatchObject({ name: 'ModelError', message: expect.stringMatching(message) });
    expect((error as Error).message).not.toContain(TOKEN);
    // Asked once: another try would change nothing.
    expect(hub.asks).toHaveLength(1);
  });

  test('what there is no room for is not begun', async () => {
    await serve();
    hub.faults.claim = 2 ** 52;
    const message = /^4503599\.63 GB are to be fetched to .*, where \S+ GB are free: make room, or name another folder/;
    await expect(get()).rejects.toThrow(message);
    expect(hub.downloads).toEqual([]);
  });

  // Whose writes fail as those to a full disk do.
  test.skipIf(!existsSync('/dev/full'))(
    'a disk that is full meanwhile is told of, and nothing counts as whole',
    async () => {
      await serve();
      const { path: folder } = await get();
      rmSync(join(folder, 'model.safetensors'));
      symlinkSync('/dev/full', join(folder, 'model.safetensors.partial'));
      await expect(get()).rejects.toThrow(
        `there is no more room in ${cache}: make some, or name another folder in SHOAL_CACHE`,
      );
      expect(existsSync(join(folder, 'model.safetensors'))).toBe(false);
      rmSync(join(folder, 'model.safetensors.partial'));
      expectWhole((await get()).path);
    },
  );

  test('more bytes than the hub tells are refused', async () => {
    await serve();
    hub.faults.claim = 1_000;
    await expect(get()).rejects.toThrow(/sends more than the 1000 bytes that it tells/);
  });

  test('revisions and files that are not there are named', async () => {
    await serve({ ...stories(), 'a.gguf': readFileSync(GGUF) });
    await expect(get(`hf:${REPOSITORY}@v9`)).rejects.toThrow('hf:someone/stories@v9: there is no such revision');
    await expect(get(`hf:${REPOSITORY}/b.gguf`)).rejects.toThrow(/has no b\.gguf; it has a\.gguf$/);
  });

  test('a .gguf is fetched by its name, from a folder too, or where it is the only one', async () => {
    const bytes = readFileSync(GGUF);
    await serve({ 'README.md': Buffer.from('x'), 'a.gguf': bytes, 'q8/b.gguf': bytes, 'x.txt': Buffer.from('y') });
    const one = await get();
    expect(one).toMatchObject({ kind: 'gguf', path: expect.stringMatching(/a\.gguf$/) });
    const other = await get(`hf:${REPOSITORY}@main/q8/b.gguf`);
    expect(other.path.endsWith(join(hub.commit, 'q8', 'b.gguf'))).toBe(true);
    expect(readFileSync(other.path).equals(bytes)).toBe(true);
  });

  test('of several .gguf files one is to be named, and of parts of one none', async () => {
    const bytes = Buffer.from('x');
    await serve({ 'a.gguf': bytes, 'b-00001-of-00002.gguf': bytes });
    await expect(get()).rejects.toThrow('has 2 .gguf files; name one: a.gguf, b-00001-of-00002.gguf');
    await expect(get(`hf:${REPOSITORY}/b-00001-of-00002.gguf`)).rejects.toThrow('is a part of a model');
    expect(hub.downloads).toEqual([]);
  });

  test('shards come by their index', async () => {
    const { 'model.safetensors': weights, ...rest } = stories();
    const weightMap = { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' };
    const index = Buffer.from(JSON.stringify({ weight_map: weightMap }));
    const files = { ...rest, 'model.safetensors.index.json': index, [weightMap.a]: weights!, [weightMap.b]: weights! };
    await serve({ ...files, 'consolidated.safetensors': weights! });
    const { path } = await get();
    expect(
      readdirSync(path)
        .filter((name) => name.includes('safetensors'))
        .sort(),
    ).toEqual([weightMap.a, weightMap.b, 'model.safetensors.index.json'].sort());
    await hub.close();
    const { [weightMap.b]: _, ...without } = files;
    await serve(without);
    await expect(get()).rejects.toThrow(`names ${weightMap.b}, which is missing`);
  });
});
