import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Code, createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { NodeRelay } from '../contract/gen/node_relay_pb.ts';
import { RelayBench } from '../relay/testing/relay-bench.ts';
import { fetchManifest, relayFiles } from './model-files.ts';
import { RelayAccess } from './relay-access.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const TOKEN = 'node-token-0123456789';
const never = new AbortController().signal;
const silent = { onProgress: () => {}, onTrouble: () => {} };

let dir: string;
let tokenFile: string;
let bench: RelayBench;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-page-'));
  tokenFile = join(dir, 'tokens');
  writeFileSync(tokenFile, `node ${TOKEN}\nclient client-token-0123456789\n`);
  bench = await RelayBench.start({ tokenFile });
});
afterAll(async () => {
  await bench.end();
  rmSync(dir, { recursive: true });
});

test('without a token nothing is loaded, and nobody tries again', async () => {
  const { ask } = new RelayAccess(bench.webUrl, undefined);
  await expect(fetchManifest(bench.webUrl, never, ask)).rejects.toMatchObject({
    code: Code.Unauthenticated,
    rawMessage: 'this relay asks for a token: open the link that you were given',
  });
});

test('with a wrong token, or another role’s, the page is told so', async () => {
  const wrong = new RelayAccess(bench.webUrl, 'wrong-token-0123456789');
  await expect(fetchManifest(bench.webUrl, never, wrong.ask)).rejects.toMatchObject({ code: Code.Unauthenticated });
  const client = new RelayAccess(bench.webUrl, 'client-token-0123456789');
  await expect(fetchManifest(bench.webUrl, never, client.ask)).rejects.toMatchObject({
    code: Code.PermissionDenied,
    rawMessage: 'the relay does not let this page in: The client role may not do this.',
  });
});

test('one session for all, a new one where it is over, and the end where the token is revoked', async () => {
  const access = new RelayAccess(bench.webUrl, TOKEN);
  const sessions: (string | undefined)[] = [];
  access.onSession = () => sessions.push(access.authorization);
  const { ask } = access;
  const { manifest } = await fetchManifest(bench.webUrl, never, ask);
  const files = relayFiles(bench.webUrl, manifest, never, silent, ask);
  const reads = files.names.slice(0, 3).map((name) => files.open(name)!.read(0, 8));
  expect((await Promise.all(reads)).map((bytes) => bytes.byteLength)).toEqual([8, 8, 8]);
  expect(sessions).toEqual([expect.stringMatching(/^Bearer [\w-]{43}$/)]);

  const client = createClient(NodeRelay, createConnectTransport({ baseUrl: bench.webUrl, fetch: ask }));
  // Let in, and then told that no such node is there.
  await expect(client.report({ sessionToken: 'x' })).rejects.toMatchObject({ code: Code.Aborted });
  const revoke = (lines: string) => {
    writeFileSync(tokenFile, lines);
    bench.relay.reload();
  };
  revoke('');
  revoke(`node ${TOKEN}\n`);
  await Promise.all([
    expect(client.report({ sessionToken: 'x' })).rejects.toMatchObject({ code: Code.Aborted }),
    expect(client.detach({ sessionToken: 'x' })).rejects.toMatchObject({ code: Code.Aborted }),
    fetchManifest(bench.webUrl, never, ask),
  ]);
  expect(new Set(sessions).size).toBe(2);
  expect(sessions).toHaveLength(2);

  revoke('');
  await expect(client.report({ sessionToken: 'x' })).rejects.toMatchObject({ code: Code.Unauthenticated });
  const attach = client.attach({ protocolVersion: 1 })[Symbol.asyncIterator]();
  await expect(attach.next()).rejects.toMatchObject({ code: Code.Unauthenticated });
});
