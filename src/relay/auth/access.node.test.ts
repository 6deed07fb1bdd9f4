import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import type { DescMethod } from '@bufbuild/protobuf';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { FleetMonitor } from '../../contract/gen/fleet_monitor_pb.ts';
import { NodeRelay } from '../../contract/gen/node_relay_pb.ts';
import { Operator } from '../../contract/gen/operator_pb.ts';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { sessionFor } from '../testing/bearer.ts';
import { RelayBench } from '../testing/relay-bench.ts';
import { PATHS, rpcAccess } from './access-table.ts';
import { ROLES, type Role } from './roles.ts';

// Real sockets on a machine that others use too: what hangs ends here, what is slow does not.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

/** Who may, route by route. It is written here a second time on purpose: a row that changes is a decision. */
const MAY: Readonly<Record<string, readonly Role[] | 'everybody'>> = {
  '/shoal.relay.v1.NodeRelay/Attach': ['node', 'operator'],
  '/shoal.relay.v1.NodeRelay/Report': ['node', 'operator'],
  '/shoal.relay.v1.NodeRelay/Detach': ['node', 'operator'],
  '/sglang.grpc.scheduler.SglangScheduler/Generate': ['client', 'operator'],
  '/sglang.grpc.scheduler.SglangScheduler/Abort': ['client', 'operator'],
  '/sglang.grpc.scheduler.SglangScheduler/GetLoads': ['client', 'operator'],
  '/sglang.grpc.scheduler.SglangScheduler/Embed': ['client', 'operator'],
  '/sglang.grpc.scheduler.SglangScheduler/HealthCheck': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/GetModelInfo': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/GetServerInfo': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/GetTokenizer': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/SubscribeKvEvents': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/FlushCache': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/StartProfile': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/StopProfile': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/LoadLoRAAdapter': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/UnloadLoRAAdapter': ['operator'],
  '/sglang.grpc.scheduler.SglangScheduler/ListLoadedLoRAAdapters': ['operator'],
  '/shoal.relay.v1.FleetMonitor/GetHistory': ['operator'],
  '/shoal.relay.v1.FleetMonitor/ListNodes': ['operator'],
  '/shoal.relay.v1.FleetMonitor/ListRequests': ['operator'],
  '/shoal.relay.v1.Operator/LoadLoRA': ['operator'],
  '/shoal.relay.v1.Operator/UnloadLoRA': ['operator'],
  '/shoal.relay.v1.Operator/UpdateWeights': ['operator'],
  '/shoal.relay.v1.Operator/GetInternalState': ['operator'],
  '/shoal.relay.v1.Operator/SetInternalState': ['operator'],
  '/metrics': ['operator'],
  '/model/manifest.json': ['node', 'operator'],
  '/model/files/tokenizer.json': ['node', 'operator'],
  '/model/files/none': ['node', 'operator'],
  '/tokenizer/manifest.json': ['node', 'client', 'operator'],
  '/tokenizer/files/tokenizer.json': ['node', 'client', 'operator'],
  '/tokenizer/files/model.safetensors': ['node', 'client', 'operator'],
  '/healthz': 'everybody',
  '/': 'everybody',
  '/index.html': 'everybody',
  '/nowhere': 'everybody',
};

const TOKENS: Readonly<Record<Role, string>> = {
  node: 'node-token-0123456789',
  client: 'client-token-0123456789',
  operator: 'operator-token-0123456789',
};
const methods = new Map<string, DescMethod>(
  [NodeRelay, SglangScheduler, FleetMonitor, Operator].flatMap((service) =>
    service.methods.map((method) => [`/${service.typeName}/${method.name}`, method] as const),
  ),
);

/** Of each sort, with what is sent of it. */
const credentials = new Map<string, { readonly bearer: string | undefined; readonly role: Role | undefined }>();
const logged: string[] = [];
let dir: string;
let bench: RelayBench;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-access-'));
  writeFileSync(join(dir, 'index.html'), '<title>shoal</title>');
  const tokenFile = join(dir, 'tokens');
  const lines = (of: string) => ROLES.map((role) => `${role} ${of}-${TOKENS[role]}\n`).join('');
  writeFileSync(tokenFile, lines('revoked') + lines('kept'));
  const stream = new Writable({
    write(line, _encoding, done) {
      logged.push(String(line));
      done();
    },
  });
  bench = await RelayBench.start({
    pageDir: dir,
    tokens: ROLES.map((role) => ({ role, token: TOKENS[role] })),
    tokenFile,
    sessionMs: 60_000,
    logger: pino({ level: 'trace' }, stream),
  });
  credentials.set('nothing', { bearer: undefined, role: undefined });
  credentials.set('a wrong session', { bearer: 'x'.repeat(43), role: undefined });
  for (const role of ROLES) {
    credentials.set(role, { bearer: await sessionFor(bench.webUrl, TOKENS[role]), role });
    credentials.set(`${role} of the file`, { bearer: await sessionFor(bench.webUrl, `kept-${TOKENS[role]}`), role });
    credentials.set(`the ${role} token itself`, { bearer: TOKENS[role], role: undefined });
    const revoked = await sessionFor(bench.webUrl, `revoked-${TOKENS[role]}`);
    credentials.set(`revoked ${role}`, { bearer: revoked, role: undefined });
  }
  writeFileSync(tokenFile, `# of three others nothing is left\n${lines('kept')}`);
  bench.relay.reload();
});
afterAll(async () => {
  await bench.end();
  rmSync(dir, { recursive: true });
});

/** The status of a request that is in order but for who sends it. */
async function ask(url: string, path: string, bearer: string | undefined): Promise<{ status: number; text: string }> {
  const method = methods.get(path);
  const headers: Record<string, string> = bearer === undefined ? {} : { authorization: `Bearer ${bearer}` };
  // Some would stay open.
  if (method) headers['connect-timeout-ms'] = '50';
  const unary = method?.methodKind === 'unary';
  if (method) headers['content-type'] = unary ? 'application/json' : 'application/connect+json';
  const body = unary ? '{}' : Buffer.from([0, 0, 0, 0, 2, 0x7b, 0x7d]);
  const answer = await fetch(`${url}${path}`, method ? { method: 'POST', headers, body } : { headers });
  return { status: answer.status, text: await answer.text() };
}

function outcomeOf({ status, text }: { status: number; text: string }): 'in' | 401 | 403 {
  if (status !== 401 && status !== 403) return 'in';
  expect(JSON.parse(text)).toMatchObject({ code: status === 401 ? 'unauthenticated' : 'permission_denied' });
  return status;
}

test('the table has every rpc and path of the web port', () => {
  const rpcs = Object.keys(MAY).filter((path) => path.includes('.v1.') || path.includes('scheduler'));
  expect(rpcs.sort()).toEqual([...methods.keys()].sort());
  expect([...rpcAccess([NodeRelay, SglangScheduler, FleetMonitor, Operator]).keys()].sort()).toEqual(rpcs);
  for (const { path } of PATHS) {
    // Has a test of its own, below.
    if (path !== '/session')
      expect(
        Object.keys(MAY).some((one) => one.startsWith(path)),
        path,
      ).toBe(true);
  }
});

test('docs/security.md has the same table', () => {
  const text = readFileSync(new URL('../../../docs/security.md', import.meta.url), 'utf8');
  const rows = [...text.matchAll(/^\| `(\w+\/\w+)` \| (.+) \| (.+) \| (.+) \| (.+) \|$/gm)];
  const told = rows.map(([, name, nobody, ...roles]) => {
    expect(nobody, name).toBe('–');
    return [name, ROLES.filter((_, at) => roles[at] !== '–')];
  });
  const all = [...methods.keys()].map((path) => [path.replace(/^\/(?:\w+\.)+/, ''), MAY[path]]);
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(all));

  const paths = [...text.matchAll(/^\| `(\/[\w/]*)…?`[^|]* \| (.+) \| (.+) \| (.+) \| (.+) \|$/gm)];
  const toldPaths = paths.map(([, path, ...cells]) => [path, cells.map((cell) => cell !== '–')]);
  const allPaths = PATHS.map(({ path, access }) => {
    const may = ROLES.map((role) => access === 'public' || access.includes(role));
    return [path, [access === 'public' && path !== '/session', ...may]];
  });
  expect(Object.fromEntries(toldPaths)).toEqual(Object.fromEntries(allPaths));
});

test('an rpc without a row is served to nobody: the relay does not start', () => {
  const method = { name: 'Fresh' } as DescMethod;
  const service = { ...NodeRelay, methods: [method] } as unknown as typeof NodeRelay;
  expect(() => rpcAccess([service])).toThrow('shoal.relay.v1.NodeRelay/Fresh has no row');
});

test.each(Object.entries(MAY))('%s: for %j, and for nobody else', async (path, may) => {
  const outcomes: Record<string, unknown> = {};
  const expected: Record<string, unknown> = {};
  for (const [name, { bearer, role }] of credentials) {
    outcomes[name] = outcomeOf(await ask(bench.webUrl, path, bearer));
    const isIn = may === 'everybody' || (role !== undefined && may.includes(role));
    expected[name] = isIn ? 'in' : role === undefined ? 401 : 403;
  }
  // What scrapes metrics has no way to exchange a token.
  if (path === '/metrics') expected['the operator token itself'] = 'in';
  expect(outcomes).toEqual(expected);
});

test('a session that nothing was asked with for its life is over; one that is used goes on', async () => {
  const short = await RelayBench.start({ tokens: [{ role: 'client', token: TOKENS.client }], sessionMs: 400 });
  try {
    const [used, quiet] = [
      await sessionFor(short.webUrl, TOKENS.client),
      await sessionFor(short.webUrl, TOKENS.client),
    ];
    const path = '/sglang.grpc.scheduler.SglangScheduler/GetLoads';
    for (let at = 0; at < 5; at++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect((await ask(short.webUrl, path, used)).status).toBe(200);
    }
    expect((await ask(short.webUrl, path, quiet)).status).toBe(401);
  } finally {
    await short.end();
  }
});

test('/session gives a session for a token, by POST and header only', async () => {
  const url = `${bench.webUrl}/session`;
  const json = { 'content-type': 'application/json' };
  const authorization = `Bearer ${TOKENS.client}`;
  const right = await fetch(url, { method: 'POST', headers: { ...json, authorization } });
  expect([right.status, right.headers.get('cache-control'), right.headers.get('set-cookie')]).toEqual([
    200,
    'no-store',
    null,
  ]);
  expect(await right.json()).toEqual({
    role: 'client',
    sessionToken: expect.stringMatching(/^[\w-]{43}$/),
    expiresInMs: 60_000,
  });
  for (const [status, init] of [
    [401, { method: 'POST', headers: json }],
    [401, { method: 'POST', headers: { ...json, authorization: `Bearer ${TOKENS.client}x` } }],
    [401, { method: 'POST', headers: { ...json, authorization: `Bearer revoked-${TOKENS.client}` } }],
    [401, { method: 'POST', headers: { ...json, authorization: `Basic ${TOKENS.client}` } }],
    [401, { method: 'POST', headers: { ...json, authorization: `Bearer ${credentials.get('client')!.bearer}` } }],
    [405, { headers: { authorization } }],
    [415, { method: 'POST', headers: { 'content-type': 'text/plain', authorization } }],
    [403, { method: 'POST', headers: { ...json, authorization, origin: 'http://elsewhere.example' } }],
  ] as const) {
    const answer = await fetch(url, init);
    expect(answer.status).toBe(status);
    if (status === 401) expect(answer.headers.get('www-authenticate')).toBe('Bearer');
  }
  expect((await fetch(`${url}?token=${TOKENS.client}`, { method: 'POST', headers: json })).status).toBe(401);
});

test('no token and no session is ever logged', () => {
  expect(logged.length).toBeGreaterThan(0);
  const all = logged.join('');
  for (const { bearer } of credentials.values()) if (bearer !== undefined) expect(all).not.toContain(bearer);
  for (const token of Object.values(TOKENS)) expect(all).not.toContain(token);
});
