import { expect, test } from 'vitest';
import { defaultOptions, type RelayOptions, settle } from './options.ts';

const NEEDED = { model: 'models/none', build: { packageVersion: '0', pageHash: '' } };

test('a heartbeat may be a third of the lease', () => {
  expect(settle({ ...NEEDED, leaseMs: 9_000, heartbeatMs: 3_000 }).heartbeatMs).toBe(3_000);
});

test('what is not given has its default', () => {
  const settings = settle({ ...NEEDED, leaseMs: 9_000 } as RelayOptions);
  expect(settings).toMatchObject({ ...defaultOptions, leaseMs: 9_000, ranks: undefined, schedulePolicy: 'lpm' });
});

test.each<[object, string]>([
  [{ leaseMs: 0 }, 'leaseMs must be an integer in [1, 2147483647], got 0.'],
  [{ requestMs: 2 ** 31 }, 'requestMs must be an integer in [1, 2147483647], got 2147483648.'],
  [{ startWaitMs: 1.5 }, 'startWaitMs must be an integer in [0, 2147483647], got 1.5.'],
  [{ heartbeatMs: 5_001 }, 'heartbeatMs must be at most a third of leaseMs (15000), got 5001.'],
  [{ ranks: 0 }, 'ranks must be an integer in [1, 1024], got 0.'],
  [{ schedulePolicy: 'dfs' }, 'schedulePolicy must be one of lpm, fcfs, priority, got dfs.'],
])('%j makes no sense', (options, message) => {
  expect(() => settle({ ...NEEDED, ...options } as RelayOptions)).toThrow(new RangeError(message));
});
