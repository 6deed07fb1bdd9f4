import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { defaultOptions } from '../options.ts';
import { RelayBench } from '../testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const GET_LOADS = '/sglang.grpc.scheduler.SglangScheduler/GetLoads';
const TOKENS = [{ role: 'operator', token: 'operator-token-0123456789' }] as const;

let bench: RelayBench;
let named: RelayBench;
beforeAll(async () => {
  bench = await RelayBench.start();
  named = await RelayBench.start({ hosts: ['Shoal.example'], tokens: TOKENS });
});
afterAll(async () => {
  await bench.end();
  await named.end();
});

/** The status of a request whose headers are these and no others: fetch would not send them. */
function statusOf(
  { relay }: RelayBench,
  path: string,
  { method = 'GET', body, ...headers }: Record<string, string>,
): Promise<number | undefined> {
  const sent = body === undefined ? headers : { ...headers, 'content-length': String(body.length) };
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port: relay.webPort, host: '127.0.0.1', path, method, headers: sent }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode));
    });
    request.on('error', reject);
    request.end(body);
  });
}

const call = (headers: Record<string, string>) => ({
  method: 'POST',
  'content-type': 'application/json',
  body: '{}',
  host: '127.0.0.1',
  ...headers,
});

test('by default nothing listens on any address but loopback', async () => {
  expect([defaultOptions.grpcHost, defaultOptions.webHost]).toEqual(['127.0.0.1', '127.0.0.1']);
  const ports = [bench.relay.grpcPort, bench.relay.webPort];
  if (process.platform === 'linux') {
    const own = listeningHere().filter(({ port }) => ports.includes(port));
    expect(own.map(({ address }) => address)).toEqual(['0100007F', '0100007F']);
  }
  const others = Object.values(networkInterfaces()).flatMap((list) => list!.filter(({ internal }) => !internal));
  for (const { address, family } of others) {
    if (family !== 'IPv4') continue;
    for (const port of ports) expect(await answers(address, port), `${address}:${port}`).toBe(false);
  }
});

/** This process's listening sockets, as the kernel tells them: proc_pid_net(5). */
function listeningHere(): { address: string; port: number }[] {
  const inodes = new Set(
    readdirSync('/proc/self/fd').map((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1];
      } catch {
        return undefined;
      }
    }),
  );
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/self/net/${table}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((words) => words[3] === '0A' && inodes.has(words[9]))
      .map((words) => ({ address: words[1]!.split(':')[0]!, port: Number.parseInt(words[1]!.split(':')[1]!, 16) })),
  );
}

function answers(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 1_000 });
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => end(true));
    socket.on('timeout', () => end(false));
    socket.on('error', () => end(false));
  });
}

test.each([
  ['127.0.0.1', 200],
  ['127.0.0.1:8080', 200],
  ['localhost:1', 200],
  ['[::1]:8080', 200],
  ['192.168.1.7', 200],
  // Names that another's DNS may point here.
  ['evil.example', 421],
  ['127.0.0.1.evil.example', 421],
  ['localhost.evil.example:8080', 421],
  ['shoal.example', 421],
  ['[evil]', 421],
  ['127.0.0.1@evil.example', 421],
])('as %j the relay answers %d', async (host, status) => {
  expect(await statusOf(bench, GET_LOADS, call({ host }))).toBe(status);
  expect(await statusOf(bench, '/healthz', { host })).toBe(status === 200 ? 503 : 421);
});

test.each([
  [{ host: 'shoal.example' }, 401],
  [{ host: 'SHOAL.example:443' }, 401],
  [{ host: 'www.shoal.example' }, 421],
  // A proxy that keeps no Host.
  [{ origin: 'https://shoal.example' }, 401],
  [{ origin: 'https://shoal.example.evil.example' }, 403],
])('with --host shoal.example, %j gets %d', async (headers, status) => {
  expect(await statusOf(named, GET_LOADS, call(headers as Record<string, string>))).toBe(status);
});

test.each([
  [{ origin: 'http://127.0.0.1' }, 200],
  [{ origin: 'http://127.0.0.1', 'sec-fetch-site': 'same-origin' }, 200],
  [{ 'sec-fetch-site': 'none' }, 200],
  [{ origin: 'http://evil.example' }, 403],
  [{ origin: 'http://127.0.0.1:9' }, 403],
  [{ origin: 'null' }, 403],
  [{ origin: '' }, 403],
  [{ 'sec-fetch-site': 'cross-site' }, 403],
  [{ 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1' }, 403],
])('from %j an rpc gets %d', async (headers, status) => {
  expect(await statusOf(bench, GET_LOADS, call(headers as Record<string, string>))).toBe(status);
  const files = await statusOf(bench, '/model/manifest.json', { host: '127.0.0.1', ...(headers as object) });
  expect(files).toBe(status);
});

test('rpcs are POSTs of types that no form of another site can send', async () => {
  const query = `${GET_LOADS}?connect=v1&encoding=json&message=%7B%7D`;
  expect(await statusOf(bench, query, { host: '127.0.0.1' })).toBe(405);
  for (const method of ['PUT', 'DELETE', 'OPTIONS', 'HEAD', 'GET']) {
    expect(await statusOf(bench, GET_LOADS, call({ method })), method).toBe(405);
  }
  for (const type of [
    'text/plain',
    'text/plain; application/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
    'application/grpc',
    '',
  ]) {
    expect(await statusOf(bench, GET_LOADS, call({ 'content-type': type })), type).toBe(415);
  }
  expect(await statusOf(bench, GET_LOADS, call({ 'content-type': 'application/json; charset=utf-8' }))).toBe(200);
});

test.each(['/', '/healthz', '/metrics', '/model/manifest.json', '/model/files/none', GET_LOADS, '/nowhere'])(
  '%s comes with what keeps a page to itself, and no cookie',
  async (path) => {
    const { headers } = await fetch(`${bench.webUrl}${path}`);
    expect(headers.get('content-security-policy')).toContain(
      "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'",
    );
    expect(Object.fromEntries(headers)).toMatchObject({
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    });
    expect([...headers.keys()].filter((name) => /cookie|access-control/.test(name))).toEqual([]);
  },
);

test('what others could reach with no token does not start', async () => {
  await expect(RelayBench.start({ webHost: '0.0.0.0' })).rejects.toThrow('--web-host 0.0.0.0 opens the web port');
  await expect(RelayBench.start({ grpcHost: '0.0.0.0' })).rejects.toThrow('--allow-from');
  await expect(RelayBench.start({ tlsCert: 'cert.pem' })).rejects.toThrow('give both');
});

test('of the addresses outside --allow-from none gets an HTTP/2 session', async () => {
  const outer = Object.values(networkInterfaces())
    .flat()
    .find((one) => one && !one.internal && one.family === 'IPv4')?.address;
  // A machine without any network has nothing to be refused from.
  if (outer === undefined) return;
  const gateway = await RelayBench.start({ grpcHost: '0.0.0.0', allowFrom: ['203.0.113.0/24'], onProgress: () => {} });
  const open = await RelayBench.start({ grpcHost: '0.0.0.0', allowFrom: [`${outer}/32`], onProgress: () => {} });
  try {
    expect(await firstBytes(outer, gateway.relay.grpcPort)).toBe(0);
    expect(await firstBytes('127.0.0.1', gateway.relay.grpcPort)).toBeGreaterThan(0);
    expect(await firstBytes(outer, open.relay.grpcPort)).toBeGreaterThan(0);
  } finally {
    await gateway.end();
    await open.end();
  }
});

/** How many bytes come back for HTTP/2's preface and empty settings. */
function firstBytes(host: string, port: number): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect({ host, port }, () => socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'));
    socket.setTimeout(5_000, () => socket.destroy());
    socket.on('data', (bytes) => {
      resolve(bytes.length);
      socket.destroy();
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(0));
  });
}
