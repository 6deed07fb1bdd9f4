import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { GetLoadsRequestSchema, SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { bearer, sessionFor } from '../testing/bearer.ts';
import { RelayBench, requestOf } from '../testing/relay-bench.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const TOKENS = { node: 'node-token-0123456789', client: 'client-token-0123456789', operator: 'operator-token-012345' };
const LINES = Object.entries(TOKENS).map(([role, token]) => `${role} ${token}`);

let dir: string;
let tokenFile: string;
let bench: RelayBench;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-revoke-'));
  tokenFile = join(dir, 'tokens');
});
afterAll(() => rmSync(dir, { recursive: true }));
beforeEach(async () => {
  writeFileSync(tokenFile, LINES.join('\n'));
  bench = await RelayBench.start({ tokenFile });
});
afterEach(() => bench.end());

const revoke = (role: keyof typeof TOKENS) =>
  writeFileSync(tokenFile, LINES.filter((line) => !line.startsWith(role)).join('\n'));

async function clientOf(role: keyof typeof TOKENS, protocol: typeof createConnectTransport = createConnectTransport) {
  const session = await sessionFor(bench.webUrl, TOKENS[role]);
  return createClient(
    SglangScheduler,
    protocol({ baseUrl: bench.webUrl, httpVersion: '1.1', interceptors: [bearer(session)] }),
  );
}

async function nodeOf() {
  const sessionToken = await sessionFor(bench.webUrl, TOKENS.node);
  return bench.node({ sessionToken, manual: true });
}

const ranks = async () =>
  (await bench.client.unary(SglangScheduler.method.getLoads, create(GetLoadsRequestSchema))).loads.length;

test('a revoked token takes its node, its requests and its sessions along, at once, and nobody else’s', async () => {
  const node = await nodeOf();
  const operator = await clientOf('operator');
  const client = await clientOf('client');
  const refused = (async () => {
    for await (const _ of client.generate(requestOf([1, 2], { maxNewTokens: 9 }))) void _;
  })().catch((error: unknown) => ConnectError.from(error).code);
  await node.until(() => node.jobs.length === 1);

  revoke('client');
  bench.relay.reload();
  expect(await refused).toBe(Code.Unauthenticated);
  await node.until(() => node.commandsOf('abort').length === 1);
  await expect(client.getLoads({})).rejects.toMatchObject({ code: Code.Unauthenticated });
  await expect(sessionFor(bench.webUrl, TOKENS.client)).rejects.toThrow('401');
  expect(await ranks()).toBe(1);

  revoke('node');
  bench.relay.reload();
  await node.until(() => node.streamError !== undefined);
  expect(node.streamError?.code).toBe(Code.Unauthenticated);
  expect(await ranks()).toBe(0);
  expect((await operator.getLoads({})).loads).toEqual([]);
});

test('a token file that changes is read without a word, one that is replaced too', async () => {
  const client = await clientOf('client');
  await client.getLoads({});
  const next = join(dir, 'next');
  writeFileSync(next, `operator ${TOKENS.operator}\n`);
  renameSync(next, tokenFile);
  await vi.waitFor(() => expect(client.getLoads({})).rejects.toMatchObject({ code: Code.Unauthenticated }), 10_000);
});

test('a token file that is gone or wrong changes nothing', async () => {
  const client = await clientOf('client');
  for (const text of [
    'client',
    `guest ${TOKENS.client}`,
    'client short',
    `client ${TOKENS.node}\nnode ${TOKENS.node}`,
  ]) {
    writeFileSync(tokenFile, text);
    bench.relay.reload();
    await client.getLoads({});
  }
  rmSync(tokenFile);
  bench.relay.reload();
  await client.getLoads({});
});

test.each([
  ['Connect', createConnectTransport],
  ['gRPC-web', createGrpcWebTransport as typeof createConnectTransport],
])(
  'over %s a client aborts what its session began and nothing else; an operator aborts anything',
  async (_, protocol) => {
    const node = await nodeOf();
    const [one, other, operator] = [
      await clientOf('client', protocol),
      await clientOf('client', protocol),
      await clientOf('operator', protocol),
    ];
    const reasons = ['a', 'b'].map(async (requestId) => {
      let reason = '';
      for await (const { response } of one.generate(requestOf([1, 2], { maxNewTokens: 9 }, { requestId }))) {
        if (response.case === 'complete') reason = response.value.finishReason;
      }
      return reason;
    });
    await node.until(() => node.jobs.length === 2);
    expect(await other.abort({ requestId: 'a' })).toMatchObject({ success: false, message: 'Request a not found' });
    expect(await one.abort({ requestId: 'a' })).toMatchObject({ success: true });
    expect(await reasons[0]).toBe('abort');
    expect(await operator.abort({ requestId: 'b' })).toMatchObject({ success: true });
    expect(await reasons[1]).toBe('abort');
    // Without a session of its own it is told why, in its protocol's way.
    const stranger = createClient(SglangScheduler, protocol({ baseUrl: bench.webUrl, httpVersion: '1.1' }));
    await expect(stranger.getLoads({})).rejects.toMatchObject({ code: Code.Unauthenticated });
    const stream = stranger.generate(requestOf([1], {}))[Symbol.asyncIterator]();
    await expect(stream.next()).rejects.toMatchObject({ code: Code.Unauthenticated });
  },
);
