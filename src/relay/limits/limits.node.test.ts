import { connect, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { bearer, sessionFor } from '../testing/bearer.ts';
import { RelayBench, requestOf } from '../testing/relay-bench.ts';
import { ScriptedNode } from '../testing/scripted-node.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const TOKENS = [
  { role: 'node', token: 'node-token-0123456789' },
  { role: 'client', token: 'client-token-0123456789' },
] as const;
/** An address of this machine's that others could reach it at, if it has one. */
const outer = Object.values(networkInterfaces())
  .flat()
  .find((one) => one && !one.internal && one.family === 'IPv4')?.address;

let bench: RelayBench;
beforeAll(async () => {
  bench = await RelayBench.start({
    tokens: TOKENS,
    clientRate: 10,
    clientInFlight: 3,
    clientBytes: 100_000,
    readMaxBytes: 400_000,
    sessionNodes: 2,
  });
});
afterAll(() => bench.end());

async function clientOf(protocol: typeof createConnectTransport = createConnectTransport) {
  const interceptors = [bearer(await sessionFor(bench.webUrl, TOKENS[1].token))];
  return createClient(SglangScheduler, protocol({ baseUrl: bench.webUrl, httpVersion: '1.1', interceptors }));
}

const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => 'ok' as const,
    (error: unknown) => ConnectError.from(error).code,
  );

test.each([
  ['Connect', createConnectTransport],
  ['gRPC-web', createGrpcWebTransport as typeof createConnectTransport],
])('over %s a client that floods gets RESOURCE_EXHAUSTED, and another all its answers', async (_, protocol) => {
  const [flood, other] = [await clientOf(protocol), await clientOf(protocol)];
  const flooding = Promise.all(Array.from({ length: 120 }, () => codeOf(flood.getLoads({}))));
  for (let at = 0; at < 10; at++) expect(await codeOf(other.getLoads({}))).toBe('ok');
  const codes = await flooding;
  expect(new Set(codes)).toEqual(new Set(['ok', Code.ResourceExhausted]));
  expect(codes.filter((code) => code === 'ok').length).toBeLessThan(110);
});

test('streams of one session are bounded, bytes too', async () => {
  const [many, other] = [await clientOf(), await clientOf()];
  const leave = new AbortController();
  const open = Array.from({ length: 3 }, () => many.generate(requestOf([1]), { signal: leave.signal }));
  const ends = open.map((stream) => codeOf(stream[Symbol.asyncIterator]().next()));
  await vi.waitFor(async () => expect(await codeOf(many.getLoads({}))).toBe(Code.ResourceExhausted));
  const next = many.generate(requestOf([1]))[Symbol.asyncIterator]();
  await expect(next.next()).rejects.toMatchObject({
    code: Code.ResourceExhausted,
    rawMessage: 'More than 3 requests at a time.',
  });
  expect(await codeOf(other.getLoads({}))).toBe('ok');
  leave.abort();
  await Promise.all(ends);
  await vi.waitFor(async () => expect(await codeOf(many.getLoads({}))).toBe('ok'));

  const large = { requestId: 'x'.repeat(300_000) };
  const codes = [await codeOf(many.abort(large)), await codeOf(many.abort(large)), await codeOf(other.abort(large))];
  expect(codes).toEqual(['ok', Code.ResourceExhausted, 'ok']);
  // The connection whose body was refused half-way answers what comes next.
  expect(await codeOf(many.getLoads({}))).toBe('ok');
});

test('a large body that is refused by its head is not read: its connection is cut once the status could be seen', async () => {
  const body = Buffer.alloc(20 * 1024 * 1024);
  const head = (bearer: string) =>
    `POST /shoal.relay.v1.NodeRelay/Report HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/proto\r\n${bearer}Content-Length: ${body.length}\r\n\r\n`;
  const open = await RelayBench.start({ tokens: TOKENS, nodeBytes: 1_000, readMaxBytes: 1_000_000 });
  try {
    const token = await sessionFor(open.webUrl, TOKENS[0].token);
    // The first that is larger than the rate lets through comes in, and leaves a debt.
    const debt = await answerTo(open.relay.webPort, head(`Authorization: Bearer ${token}\r\n`), body);
    expect(debt.text).toMatch(/^HTTP\/1\.1 (?:429|400)/);
    for (const [bearer, status] of [
      ['', 401],
      [`Authorization: Bearer ${token}\r\n`, 429],
    ] as const) {
      const { text, taken } = await answerTo(open.relay.webPort, head(bearer), body);
      expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
      expect(taken).toBeLessThan(body.length - 4 * 1024 * 1024);
    }
  } finally {
    await open.end();
  }
});

/** What comes back until the relay cuts the connection, and how many bytes went out until then. */
function answerTo(port: number, head: string, body: Buffer): Promise<{ text: string; taken: number }> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(head);
      for (let at = 0; at < body.length; at += 65_536) socket.write(body.subarray(at, at + 65_536));
    });
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve({ text, taken: socket.bytesWritten - socket.writableLength }));
    socket.setTimeout(10_000, () => socket.destroy());
  });
}

test('one session has a bounded number of nodes, and one that is gone makes room', async () => {
  const sessionToken = await sessionFor(bench.webUrl, TOKENS[0].token);
  const nodes = [await bench.node({ sessionToken }), await bench.node({ sessionToken })];
  await expect(bench.node({ sessionToken })).rejects.toMatchObject({ code: Code.ResourceExhausted });
  // It comes back as the one that it was.
  await nodes[0]!.reconnect();
  const other = await bench.node({ sessionToken: await sessionFor(bench.webUrl, TOKENS[0].token) });
  await nodes[1]!.detach();
  nodes[1] = await bench.node({ sessionToken });
  for (const node of [...nodes, other]) await node.detach();
});

test.skipIf(outer === undefined)(
  'a host that floods is refused, others are not, and neither is this machine',
  async () => {
    const open = await RelayBench.start({
      ...{ webHost: '0.0.0.0', open: true, onProgress: () => {} },
      ...{ hostRate: 20, hostInFlight: 10, hostConnections: 5, hostNodes: 1 },
    });
    const sockets: Socket[] = [];
    try {
      const url = `http://${outer}:${open.relay.webPort}`;
      const statuses: number[] = [];
      for (let at = 0; at < 100; at++) {
        const answer = await fetch(`${url}/healthz`);
        await answer.arrayBuffer();
        statuses.push(answer.status);
        if (answer.status === 429) expect(answer.headers.get('retry-after')).toBe('1');
      }
      expect(new Set(statuses)).toEqual(new Set([503, 429]));
      const node = await ScriptedNode.attach({ webPort: open.relay.webPort, modelDigest: open.relay.model.digest });
      for (let at = 0; at < 100; at++) expect((await fetch(`${open.webUrl}/healthz`)).status).toBe(200);
      await node.detach();

      for (let at = 0; at < 20; at++) sockets.push(connect(open.relay.webPort, outer!));
      await vi.waitFor(() => expect(sockets.filter((socket) => socket.closed).length).toBeGreaterThanOrEqual(15));
      expect((await fetch(`${open.webUrl}/healthz`)).status).toBe(503);
      for (const socket of sockets) socket.destroy();
      // Room again: a connection of its own is answered.
      await vi.waitFor(async () => {
        const answer = await fetch(`${url}/healthz`, { headers: { connection: 'close' } });
        await answer.arrayBuffer();
      }, 5_000);
    } finally {
      for (const socket of sockets) socket.destroy();
      await open.end();
    }
  },
);
