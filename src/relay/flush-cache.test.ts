import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { flushCache } from './flush-cache.ts';
import { JobTable } from './job-table.ts';
import type { LinkAsks } from './link-asks.ts';
import type { NodeLink } from './node-link.ts';
import { PendingFlushes } from './pending-flushes.ts';
import { normalised } from './testing/normalised.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = new AbortController().signal;

/** Two nodes, of which one answers; another is out of reach. */
function fleetOf(freedTokens: number) {
  const link = (flushCache: LinkAsks['flushCache']) =>
    ({ runningJobs: 0, ended: undefined, asks: { flushCache } }) as unknown as NodeLink;
  const serving = [link(async () => ({ freedTokens, keptTokens: 0 })), link(() => new Promise(() => {}))];
  return { serving, links: [...serving, link(async () => undefined)] };
}

/** How long it takes, in fake milliseconds, and what it says. */
async function timed(timeoutS: number, table = new JobTable()) {
  const started = Date.now();
  const answer = flushCache({ fleet: fleetOf(1), table }, timeoutS, never).then(({ success, message }) => ({
    ms: Date.now() - started,
    success,
    message,
  }));
  await vi.runAllTimersAsync();
  return answer;
}

test.each([
  [0, 5],
  [2, 5],
  [30, 30],
  [1e6, 60],
])('with a timeout of %s s a silent node is waited for %s s', async (timeoutS, seconds) => {
  expect(await timed(timeoutS)).toEqual({
    ms: seconds * 1000,
    success: false,
    message:
      'Freed 1 token at 1 of 2 nodes. ' +
      `1 node did not answer within ${seconds} s. 1 node out of reach or leaving was not asked.`,
  });
});

test('the wait for an idle relay is bounded too', async () => {
  const table = new JobTable();
  table.add(normalised());
  expect((await timed(1e6, table)).ms).toBe(120_000);
});

test('a node that answers none is asked so often, and no more', async () => {
  const flushes = new PendingFlushes();
  const answers = Array.from({ length: 64 }, () => flushes.ask()?.answer);
  expect(flushes.ask()).toBeUndefined();
  flushes.answer(1n, { freedTokens: 3, keptTokens: undefined });
  expect(flushes.ask()?.id).toBe(65n);
  flushes.clear();
  expect([await answers[0], await answers[1]]).toEqual([{ freedTokens: 3, keptTokens: undefined }, undefined]);
});
