import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { defaultOptions, type RelayOptions, settle } from '../relay/options.ts';
import { runProgram } from './program.ts';
import { type RelayFlags, runRelay } from './run-relay.ts';

const given: RelayOptions[] = [];
// The command runs until a signal comes, and the relay takes ports: here each only shows what it was given.
vi.mock('./commands.ts', () => ({
  relayCommand: async (flags: RelayFlags) => {
    await runRelay(flags, () => {}, new AbortController().signal);
    return 0;
  },
}));
vi.mock('../relay/relay.ts', () => ({
  startRelay: async (options: RelayOptions) => {
    given.push(options);
    return { webPort: 1, grpcPort: 2, close: async () => {} };
  },
}));
vi.mock(import('./paths.ts'), async (original) => ({
  ...(await original()),
  // A checkout has no build of the page until `npm run build`.
  readBuildInfo: () => ({ packageVersion: '0', pageHash: '' }),
}));

beforeEach(() => {
  given.length = 0;
});

async function optionsOf(...flags: string[]): Promise<RelayOptions> {
  const none = () => {};
  expect(await runProgram(['relay', ...flags], '1.2.3', { write: none, writeError: none })).toEqual({ code: 0 });
  return given.at(-1)!;
}

test("the flags' defaults are the relay's own", async () => {
  const { ranks, ...settings } = settle(await optionsOf());
  expect(ranks).toBeUndefined();
  expect(settings).toMatchObject({ ...defaultOptions, schedulePolicy: 'lpm' });
});

test('each flag reaches its option', async () => {
  const flags = {
    '--lease': '20s',
    '--heartbeat': '2s',
    '--start-wait': '0',
    '--rejoin-wait': '4s',
    '--drain-wait': '0',
    '--update-wait': '8s',
    '--token-stall': '9s',
    '--queue-wait': '500ms',
    '--first-token-wait': '6s',
    '--request-limit': '7m',
    '--close-wait': '30s',
    '--max-queued': '0',
    '--schedule-policy': 'priority',
    '--ranks': '3',
    '--model': 'hf:a/b',
    '--quant': 'q4',
    '--model-url': 'hub,https://a.example/m/',
    '--model-cdn': 'https://*.b.example',
    '--audit-share': '0.5',
    '--lora': 'pirate=some/folder',
    '--max-lora-rank': '16',
    '--grpc-listen': '0.0.0.0',
    '--allow-from': '10.0.0.0/8,fd00::/8',
    '--web-host': '::',
    '--host': 'shoal.example',
    '--token-file': 'tokens',
    '--tls-cert': 'cert.pem',
    '--tls-key': 'key.pem',
    '--session-life': '2m',
    '--node-rate': '1',
    '--node-in-flight': '2',
    '--node-bytes': '3',
    '--client-rate': '4',
    '--client-in-flight': '5',
    '--client-bytes': '6KiB',
    '--host-rate': '7',
    '--host-in-flight': '8',
    '--host-bytes': '9MiB',
    '--host-connections': '10',
    '--host-nodes': '11',
    '--session-nodes': '12',
  };
  expect(await optionsOf(...Object.entries(flags).flat())).toMatchObject({
    leaseMs: 20_000,
    heartbeatMs: 2_000,
    startWaitMs: 0,
    rejoinWaitMs: 4_000,
    drainMs: 0,
    updateDrainMs: 8_000,
    tokenStallMs: 9_000,
    queueMs: 500,
    firstTokenMs: 6_000,
    requestMs: 420_000,
    closeGraceMs: 30_000,
    maxQueued: 0,
    schedulePolicy: 'priority',
    ranks: 3,
    model: 'hf:a/b',
    quantisation: 'q4',
    modelUrls: ['hub', 'https://a.example/m/'],
    modelCdns: ['https://*.b.example'],
    auditShare: 0.5,
    loras: [{ name: 'pirate', path: 'some/folder' }],
    maxLoras: 1,
    maxLoraRank: 16,
    grpcHost: '0.0.0.0',
    allowFrom: ['10.0.0.0/8', 'fd00::/8'],
    webHost: '::',
    hosts: ['shoal.example'],
    tokenFile: 'tokens',
    tlsCert: 'cert.pem',
    tlsKey: 'key.pem',
    sessionMs: 120_000,
    nodeRate: 1,
    nodeInFlight: 2,
    nodeBytes: 3,
    clientRate: 4,
    clientInFlight: 5,
    clientBytes: 6 * 1024,
    hostRate: 7,
    hostInFlight: 8,
    hostBytes: 9 * 1024 * 1024,
    hostConnections: 10,
    hostNodes: 11,
    sessionNodes: 12,
  });
});

test('tokens may be several, of each role', async () => {
  const given = await optionsOf(
    '--node-token',
    'a',
    '--node-token',
    'b',
    '--client-token',
    'c',
    '--operator-token',
    'd,e',
  );
  expect(given.tokens).toEqual([
    { role: 'node', token: 'a' },
    { role: 'node', token: 'b' },
    { role: 'client', token: 'c' },
    { role: 'operator', token: 'd' },
    { role: 'operator', token: 'e' },
  ]);
  expect(await optionsOf()).toMatchObject({ tokens: [], hosts: [], allowFrom: [] });
});

describe('beside flags', () => {
  let dir: string;
  let file: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'shoal-config-'));
    file = join(dir, 'relay.json');
    given.length = 0;
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(dir, { recursive: true });
  });
  const write = (config: unknown) => writeFileSync(file, typeof config === 'string' ? config : JSON.stringify(config));

  test('the environment and a file give settings: a flag comes first, then the environment, then the file', async () => {
    write({
      'web-port': 1,
      lease: '21s',
      'node-bytes': '1MiB',
      'schedule-policy': 'fcfs',
      ranks: 4,
      host: ['a', 'b'],
      open: true,
    });
    vi.stubEnv('SHOAL_WEB_PORT', '2');
    vi.stubEnv('SHOAL_LEASE', '22s');
    vi.stubEnv('SHOAL_CLIENT_TOKEN', 'x,y');
    vi.stubEnv('SHOAL_RANKS', '');
    expect(await optionsOf('--config', file, '--lease', '23s')).toMatchObject({
      webPort: 2,
      leaseMs: 23_000,
      nodeBytes: 1024 * 1024,
      schedulePolicy: 'fcfs',
      ranks: 4,
      hosts: ['a', 'b'],
      tokens: [
        { role: 'client', token: 'x' },
        { role: 'client', token: 'y' },
      ],
      open: true,
      heartbeatMs: 3_000,
    });
    given.length = 0;
    vi.stubEnv('SHOAL_CONFIG', file);
    vi.stubEnv('SHOAL_OPEN', '0');
    expect(await optionsOf()).toMatchObject({ open: false, leaseMs: 22_000, ranks: 4 });
  });

  const refusal = async (...flags: string[]) => {
    const none = () => {};
    return runProgram(['relay', ...flags], '1.2.3', { write: none, writeError: none });
  };

  test.each<[unknown, string]>([
    [{ 'web-prot': 1 }, '"web-prot" is no setting; settings are named as the flags are.'],
    [{ config: 'x' }, '"config" is no setting'],
    [{ 'web-port': 70_000 }, '"web-port" of FILE is invalid: a port is a whole number from 0 to 65535.'],
    [{ 'web-port': true }, '"web-port" of FILE is invalid: it must be a text or a number.'],
    [{ 'web-port': [1] }, '"web-port" of FILE is invalid: it must be a text or a number.'],
    [{ host: [1, null] }, '"host" of FILE is invalid: it must be a text, a list of texts or a number.'],
    [{ open: 'maybe' }, '"open" of FILE is invalid: it must be true or false.'],
    [{ 'schedule-policy': 'lifo' }, '"schedule-policy" of FILE is invalid: Allowed choices are lpm, fcfs, priority.'],
    [{ 'node-bytes': '1 GB' }, '"node-bytes" of FILE is invalid: it must be bytes'],
    ['[1]', 'FILE must hold a JSON object.'],
    ['{"node-token": "secret', "can't be read: it is no JSON."],
  ])('a file with %j is refused by the name of what is wrong', async (config, message) => {
    write(config);
    const outcome = await refusal('--config', file);
    expect(outcome).toEqual({ code: 2, message: expect.stringContaining(message.replace('FILE', file)) });
    expect(outcome.message).not.toContain('secret');
    expect(given).toEqual([]);
  });

  test('a file that is not there, and a variable that is wrong', async () => {
    expect(await refusal('--config', join(dir, 'none'))).toMatchObject({
      code: 2,
      message: expect.stringContaining('ENOENT'),
    });
    vi.stubEnv('SHOAL_MAX_QUEUED', '-1');
    expect(await refusal()).toEqual({
      code: 2,
      message: 'SHOAL_MAX_QUEUED is invalid: it must be a whole number from 0 to 2147483647.',
    });
  });
});
