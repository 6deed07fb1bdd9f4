import { beforeEach, expect, test, vi } from 'vitest';
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
  return given[0]!;
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
    '--token-stall': '9s',
    '--queue-wait': '500ms',
    '--first-token-wait': '6s',
    '--request-limit': '7m',
    '--max-queued': '0',
    '--schedule-policy': 'priority',
    '--ranks': '3',
    '--model': 'hf:a/b',
    '--quant': 'q4',
  };
  expect(await optionsOf(...Object.entries(flags).flat())).toMatchObject({
    leaseMs: 20_000,
    heartbeatMs: 2_000,
    startWaitMs: 0,
    rejoinWaitMs: 4_000,
    drainMs: 0,
    tokenStallMs: 9_000,
    queueMs: 500,
    firstTokenMs: 6_000,
    requestMs: 420_000,
    maxQueued: 0,
    schedulePolicy: 'priority',
    ranks: 3,
    model: 'hf:a/b',
    quantisation: 'q4',
  });
});
