import { createHash, X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { request as httpsRequest } from 'node:https';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { Code, createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { NodeRelay } from '../../contract/gen/node_relay_pb.ts';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { bearer } from '../testing/bearer.ts';
import { MODEL_DIR, RelayBench, requestOf } from '../testing/relay-bench.ts';
import { outputOf } from '../testing/scripted-engine.ts';
import { ScriptedNode } from '../testing/scripted-node.ts';
import { selfSigned } from '../testing/self-signed.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

let dir: string;
let files: { readonly tlsCert: string; readonly tlsKey: string };
let ca: string;
let bench: RelayBench;
let url: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-tls-'));
  writeFileSync(join(dir, 'index.html'), '<title>shoal</title>');
  files = { tlsCert: join(dir, 'cert.pem'), tlsKey: join(dir, 'key.pem') };
  ca = write(selfSigned());
  bench = await RelayBench.start({ ...files, pageDir: dir });
  url = `https://localhost:${bench.relay.webPort}`;
});
afterAll(async () => {
  await bench.end();
  rmSync(dir, { recursive: true });
});

function write({ cert, key }: { cert: string; key: string }): string {
  writeFileSync(files.tlsCert, cert);
  writeFileSync(files.tlsKey, key);
  return cert;
}

const transports = {
  'Connect, HTTP/2': () => createConnectTransport({ baseUrl: url, httpVersion: '2', nodeOptions: { ca } }),
  'Connect, HTTP/1.1': () => createConnectTransport({ baseUrl: url, httpVersion: '1.1', nodeOptions: { ca } }),
  'gRPC-web, HTTP/2': () => createGrpcWebTransport({ baseUrl: url, httpVersion: '2', nodeOptions: { ca } }),
};

/** Status, headers and body over the protocol that ALPN agreed on. */
function get(path: string, protocol: 'h2' | 'http/1.1', headers: Record<string, string> = {}) {
  return protocol === 'h2' ? getHttp2(path, headers) : getHttp1(path, headers);
}

interface Got {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly body: Buffer;
}

function getHttp1(path: string, headers: Record<string, string>): Promise<Got> {
  return new Promise((resolve, reject) => {
    const request = httpsRequest(`${url}${path}`, { ca, headers, agent: false }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(parts) }),
      );
    });
    request.on('error', reject);
    request.end();
  });
}

function getHttp2(path: string, headers: Record<string, string>): Promise<Got> {
  return new Promise((resolve, reject) => {
    const session = connectHttp2(url, { ca });
    session.on('error', reject);
    const stream = session.request({ ':path': path, ...headers });
    stream.on('error', reject);
    stream.on('response', (head) => {
      const parts: Buffer[] = [];
      stream.on('data', (part) => parts.push(part));
      stream.on('end', () => {
        session.close();
        resolve({ status: Number(head[':status']), headers: head, body: Buffer.concat(parts) });
      });
    });
    stream.end();
  });
}

test.each(['h2', 'http/1.1'] as const)('page, model files and the rest over %s', async (protocol) => {
  const page = await get('/', protocol);
  expect([page.status, String(page.body)]).toEqual([200, '<title>shoal</title>']);
  expect(page.headers['content-security-policy']).toContain("default-src 'none'");
  const whole = readFileSync(join(MODEL_DIR, 'model.safetensors'));
  const etag = `"${createHash('sha256').update(whole).digest('hex')}"`;
  const file = await get('/model/files/model.safetensors', protocol);
  expect([file.status, file.headers.etag, file.body.equals(whole)]).toEqual([200, etag, true]);
  const part = await get('/model/files/model.safetensors', protocol, { range: 'bytes=100-199' });
  expect([part.status, part.body.equals(whole.subarray(100, 200))]).toEqual([206, true]);
  expect((await get('/nowhere', protocol)).status).toBe(404);
  expect((await get('/healthz', protocol)).status).toBe(503);
  expect(String((await get('/metrics', protocol)).body)).toMatch(/^shoal:nodes\{.*\} 0$/m);
  expect((await get('/healthz', protocol, { origin: 'http://evil.example' })).status).toBe(503);
  expect((await get('/metrics', protocol, { origin: 'http://evil.example' })).status).toBe(403);
});

test.each(Object.entries(transports))('a node and its client over %s', async (_, transport) => {
  const node = await ScriptedNode.attach({
    webPort: bench.relay.webPort,
    modelDigest: bench.relay.model.digest,
    transport: transport(),
  });
  const ids: number[] = [];
  const client = createClient(SglangScheduler, transport());
  for await (const { response } of client.generate(requestOf([7, 8], { maxNewTokens: 6 }))) {
    if (response.case === 'chunk') ids.push(...response.value.tokenIds);
  }
  expect(ids).toEqual(outputOf([7, 8], 6));
  await node.detach();
  await expect(createClient(NodeRelay, transport()).report({ sessionToken: 'x' })).rejects.toMatchObject({
    code: Code.Aborted,
  });
});

test('over HTTP/2 a body that is refused unread gets its status, and the connection lives', async () => {
  // The client's own bound, of what it has yet to send.
  const session = connectHttp2(url, { ca, maxSessionMemory: 100 });
  const status = (body: Buffer) =>
    new Promise<number>((resolve, reject) => {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/shoal.relay.v1.NodeRelay/Report',
        'content-type': 'application/proto',
      });
      stream.on('response', (head) => resolve(Number(head[':status'])));
      stream.on('error', reject);
      stream.resume();
      stream.end(body);
    });
  expect(await status(Buffer.alloc(40 * 1024 * 1024))).toBe(429);
  // An empty report: of another relay's epoch.
  expect(await status(Buffer.alloc(0))).toBe(409);
  session.close();
});

test('over HTTP/2 a session’s bounds and end are as over HTTP/1.1', async () => {
  const tokenFile = join(dir, 'tokens');
  writeFileSync(tokenFile, 'client client-token-0123456789');
  const bounded = await RelayBench.start({ ...files, tokenFile, clientInFlight: 2 });
  try {
    const baseUrl = `https://localhost:${bounded.relay.webPort}`;
    // undici, behind fetch, takes no certificate by hand.
    const session = await new Promise<string>((resolve, reject) => {
      const headers = { authorization: 'Bearer client-token-0123456789', 'content-type': 'application/json' };
      const request = httpsRequest(`${baseUrl}/session`, { ca, method: 'POST', headers, agent: false }, (response) => {
        response.on('data', (text) => resolve(JSON.parse(String(text)).sessionToken));
      });
      request.on('error', reject);
      request.end('{}');
    });
    const interceptors = [bearer(session)];
    const nodeOptions = { ca };
    const client = createClient(
      SglangScheduler,
      createConnectTransport({ baseUrl, httpVersion: '2', nodeOptions, interceptors }),
    );
    for (let at = 0; at < 6; at++) await client.getLoads({});
    const leave = new AbortController();
    const streams = [0, 1].map((id) =>
      client
        .generate(requestOf([id]), leave)
        [Symbol.asyncIterator]()
        .next(),
    );
    const ends = Promise.allSettled(streams);
    await vi.waitFor(() => expect(client.getLoads({})).rejects.toMatchObject({ code: Code.ResourceExhausted }));
    leave.abort();
    await ends;
    await vi.waitFor(() => client.getLoads({}));
    const last = client
      .generate(requestOf([1]))
      [Symbol.asyncIterator]()
      .next();
    const ended = expect(last).rejects.toMatchObject({ code: Code.Unauthenticated });
    await vi.waitFor(() => expect(client.abort({ requestId: 'none' })).resolves.toMatchObject({ success: false }));
    writeFileSync(tokenFile, '');
    bounded.relay.reload();
    await ended;
    await expect(client.getLoads({})).rejects.toMatchObject({ code: Code.Unauthenticated });
  } finally {
    await bounded.end();
  }
});

test('a certificate that is replaced is used for the next connection, and one that is wrong is not', async () => {
  const shown = () =>
    new Promise<string>((resolve, reject) => {
      const socket = connectTls({ host: '127.0.0.1', port: bench.relay.webPort, rejectUnauthorized: false }, () => {
        resolve(socket.getPeerX509Certificate()!.fingerprint256);
        socket.destroy();
      });
      socket.on('error', reject);
    });
  const before = ca;
  expect(await shown()).toBe(new X509Certificate(before).fingerprint256);
  const next = selfSigned();
  writeFileSync(files.tlsCert, next.cert);
  // Half of a replacement: the key is still the old one.
  bench.relay.reload();
  expect(await shown()).toBe(new X509Certificate(before).fingerprint256);
  ca = write(next);
  bench.relay.reload();
  expect(await shown()).toBe(new X509Certificate(ca).fingerprint256);
});

test('what is no TLS gets no answer, and harms nothing', async () => {
  const answer = await new Promise<string>((resolve) => {
    let text = '';
    const socket = connectTcp(bench.relay.webPort, '127.0.0.1', () =>
      socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
    );
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });
  expect(answer).not.toContain('HTTP/1.1');
  expect((await get('/healthz', 'h2')).status).toBe(503);
});

test('files that are no certificate and its key are told by name', async () => {
  const none = join(dir, 'index.html');
  await expect(RelayBench.start({ tlsCert: none, tlsKey: none })).rejects.toThrow(
    `${none} and ${none} are no certificate`,
  );
});
