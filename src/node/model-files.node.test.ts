import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { openModel } from '../relay/model/open-model.ts';
import { serveModelFile } from '../relay/model-files.ts';
import type { ServedModel } from '../relay/served-model.ts';
import { fetchManifest, relayFiles } from './model-files.ts';
import { RelayUnreachableError } from './relay-unreachable-error.ts';

vi.setConfig({ testTimeout: 30_000 });

const FOLDER = fileURLToPath(new URL('../../models/stories260K', import.meta.url));
const WEIGHTS = 'model.safetensors';

/** What a relay serves of a model, with connections that break. */
let model: ServedModel;
let served: ServedModel;
let server: Server;
let url: string;
let ranges: string[];
/** Connections to cut, after some bytes. */
let cuts: number;
let troubles: (string | undefined)[];
let progress: number[];
let left: AbortController;

beforeAll(async () => {
  model = await openModel(FOLDER);
});
beforeEach(async () => {
  served = model;
  ranges = [];
  cuts = 0;
  troubles = [];
  progress = [];
  left = new AbortController();
  server = createServer((request, response) => {
    if (request.headers.range !== undefined) ranges.push(request.headers.range);
    if (request.headers.range !== undefined && cuts > 0) {
      cuts--;
      let left = 300_000;
      const write = response.write.bind(response) as (chunk: Uint8Array, done: () => void) => boolean;
      response.write = ((chunk: Uint8Array) => {
        const passes = chunk.subarray(0, left);
        left -= passes.length;
        if (passes.length > 0) write(passes, () => left === 0 && setTimeout(() => response.destroy(), 20));
        return left > 0;
      }) as typeof response.write;
    }
    if (!serveModelFile(served, request, response)) response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  left.abort();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

async function open() {
  const { manifest, digest } = await fetchManifest(url, left.signal);
  expect(digest).toBe(served.digest);
  return relayFiles(url, manifest, left.signal, {
    onProgress: (loaded, total) => {
      expect(total).toBe(manifest.files.reduce((sum, { size }) => sum + size, 0));
      progress.push(loaded);
    },
    onTrouble: (trouble) => void troubles.push(trouble),
  });
}

test('files are read in any order, and come once', async () => {
  const files = await open();
  expect(files.names).toEqual(Object.keys(model.paths));
  expect(files.open('LICENSE')).toBeUndefined();
  const bytes = readFileSync(join(FOLDER, WEIGHTS));
  const source = files.open(WEIGHTS)!;
  for (const [offset, length] of [
    [900_000, 1_000],
    [0, 8],
    [500_000, 200_000],
    [0, bytes.length],
  ] as const) {
    expect(bytes.subarray(offset, offset + length).equals(await source.read(offset, length))).toBe(true);
  }
  expect(ranges).toEqual([`bytes=0-${bytes.length - 1}`]);
  expect(progress).toEqual([bytes.length]);
});

test('a connection that is cut goes on where it was', async () => {
  const source = (await open()).open(WEIGHTS)!;
  const bytes = readFileSync(join(FOLDER, WEIGHTS));
  cuts = 3;
  expect(bytes.equals(await source.read(0, bytes.length))).toBe(true);
  const begins = ranges.map((range) => Number(/\d+/.exec(range)![0]));
  expect(begins).toEqual([0, 300_000, 600_000, 900_000]);
  // Told, and told to be over.
  expect(troubles.some((trouble) => trouble?.startsWith(`${url}/model/files/${WEIGHTS}: `))).toBe(true);
  expect(troubles.at(-1)).toBeUndefined();
});

test('a relay with another model by now is told', async () => {
  const source = (await open()).open(WEIGHTS)!;
  const other = { ...model.manifest, files: model.manifest.files.map((file) => ({ ...file, sha256: 'f'.repeat(64) })) };
  served = { ...model, manifest: other };
  await expect(source.read(0, 10)).rejects.toThrow(RelayUnreachableError);
  served = { ...model, manifest: { ...other, files: [] } };
  await expect(source.read(0, 10)).rejects.toThrow('serves another model by now');
});

test('bytes that are not the manifest’s are refused, with the file and where', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-broken-'));
  try {
    const path = join(folder, WEIGHTS);
    const bytes = readFileSync(join(FOLDER, WEIGHTS));
    bytes[1_000]! ^= 1;
    writeFileSync(path, bytes);
    served = { ...model, paths: { ...model.paths, [WEIGHTS]: path } };
    const source = (await open()).open(WEIGHTS)!;
    const named = `${url}/model/files/${WEIGHTS}: the SHA-256 of bytes 0 to ${bytes.length} is not the manifest's`;
    await expect(source.read(0, 8)).rejects.toThrow(named);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('whoever leaves waits for nothing', async () => {
  const source = (await open()).open(WEIGHTS)!;
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  const reading = source.read(0, 10);
  await vi.waitFor(() => expect(troubles.length).toBeGreaterThan(1), { timeout: 10_000 });
  left.abort(new Error('left'));
  await expect(reading).rejects.toThrow('left');
});
