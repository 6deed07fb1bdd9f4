import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ManifestFile } from '../checkpoint/manifest.ts';
import { ModelOrigins } from './model-origins.ts';

const BYTES = new Uint8Array(100_000).map((_, i) => (i * 31) % 253);
const FILE: ManifestFile = { name: 'weights', size: BYTES.byteLength, sha256: 'a'.repeat(64), pieces: [] };

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const servers: Server[] = [];
let notices: string[];
let troubles: (string | undefined)[];
beforeEach(() => {
  notices = [];
  troubles = [];
});
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(answer: Answer): Promise<string> {
  const server = createServer(answer);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Gives ranges; each answer but the last breaks off after so many bytes. */
function giving(asked: string[], cuts: number[] = []): Answer {
  return (request, response) => {
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    const [from, to] = [Number(range![1]), Number(range![2]) + 1];
    asked.push(`${from}-${to}`);
    response.writeHead(206, { 'content-length': to - from });
    const cut = cuts.shift();
    if (cut === undefined) response.end(BYTES.subarray(from, to));
    else response.write(BYTES.subarray(from, from + cut), () => setTimeout(() => response.destroy(), 20));
  };
}

async function read(relayUrl: string, bases: readonly string[], origins = open(relayUrl, bases)) {
  const bytes: number[] = [];
  for await (const stretch of origins.ranges(FILE, 10, 90_000)) bytes.push(...stretch);
  expect(Buffer.from(bytes).equals(BYTES.subarray(10, 90_000))).toBe(true);
}

function open(relayUrl: string, bases: readonly string[]): ModelOrigins {
  const listener = {
    onTrouble: (trouble: string | undefined) => void troubles.push(trouble),
    onNotice: (notice: string) => void notices.push(notice),
  };
  return new ModelOrigins(relayUrl, bases, new AbortController().signal, listener);
}

test('a place that has the file is asked alone, and again where it breaks off', async () => {
  const [asked, others]: [string[], string[]] = [[], []];
  const base = await serve(giving(asked, [40_000]));
  await read(await serve(giving(others)), [`${base}/models/`]);
  expect([asked, others, notices]).toEqual([['10-90000', '40010-90000'], [], []]);
});

test.each([
  [401, 'it asks for a login (status 401)'],
  [403, 'it asks for a login (status 403)'],
  [404, 'there is no such file (status 404)'],
  [200, 'it sends whole files only, no ranges'],
  [500, 'status 500'],
])('one that answers %d is left for the next, and that for the relay', async (status, why) => {
  const asked: string[] = [];
  const [first, second] = [
    await serve((_, response) => response.writeHead(status).end()),
    await serve((_, response) => response.destroy()),
  ];
  const relay = await serve(giving(asked));
  await read(relay, [`${first}/`, `${second}/`]);
  expect(notices).toEqual([
    `${first}/weights: ${why}; ${new URL(second).host} is asked instead`,
    `${second}/weights: it is out of reach, or lets no page of another site read it (CORS); the relay is asked instead`,
  ]);
  expect(asked).toEqual(['10-90000']);
});

test('what comes wrong is asked for elsewhere, and the relay is the last', async () => {
  const asked: string[] = [];
  const origins = open(await serve(giving(asked)), ['http://127.0.0.1:9/']);
  expect(origins.nameOf(FILE)).toBe('http://127.0.0.1:9/weights');
  expect(origins.distrust('its hash is another')).toBe(true);
  expect(notices).toEqual(['its hash is another; the relay is asked instead']);
  expect(origins.distrust('its hash is another')).toBe(false);
  await read('', [], origins);
  expect(asked).toEqual(['10-90000']);
});

test('the relay is asked until it answers', async () => {
  const asked: string[] = [];
  await read(await serve(giving(asked, [1_000, 2_000])), []);
  expect(asked).toEqual(['10-90000', '1010-90000', '3010-90000']);
  expect([troubles.length >= 3, troubles.at(-1)]).toEqual([true, undefined]);
});
