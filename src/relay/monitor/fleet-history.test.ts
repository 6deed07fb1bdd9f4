import { expect, test, vi } from 'vitest';
import type { Job } from '../job.ts';
import type { NodeLink } from '../node-link.ts';
import { FleetHistory, INTERVAL_MS, MOST_POINTS } from './fleet-history.ts';

function open(nodes: Partial<NodeLink>[] = []) {
  const clock = { ms: 1_000 };
  const source = { serving: () => nodes as NodeLink[], waiting: () => 3, now: () => clock.ms };
  const history = new FleetHistory(source);
  const step = (ms = INTERVAL_MS) => {
    clock.ms += ms;
    history.addPoint();
  };
  return { history, clock, step };
}

function job(promptTokens: number, cachedTokens: number, whole = true): Job {
  return { arrivedAt: 1_000, request: { inputIds: { length: promptTokens } }, cachedTokens, whole } as unknown as Job;
}

test('a point tells what was counted since the one before', () => {
  const node = { runningSamples: 2, load: { usedTokens: 30 }, facts: { poolTokens: 100 } } as unknown as NodeLink;
  const silent = { runningSamples: 1, load: undefined, facts: { poolTokens: 900 } } as unknown as NodeLink;
  const { history, clock, step } = open([node, silent]);
  history.tokens(4, undefined);
  history.tokens(6, 60);
  clock.ms += 100;
  history.firstToken(job(1, 0));
  history.jobEnded(job(30, 6));
  history.jobEnded(job(10, 0, false));
  history.failedOver(2);
  for (const outcome of ['passes', 'passes', 'fails', 'open', 'dropped', 'unfit'] as const) history.audited(outcome);
  step(4_900);
  const [point, ...others] = history.after(0);
  expect(others).toEqual([]);
  expect(point).toMatchObject({
    ...{ number: 1, atMs: 6_000, lengthMs: 5_000, nodes: 2, running: 3, waiting: 3 },
    ...{ tokenUsage: 0.3, tokensPerSecond: 2, cacheHitRate: 0.15, requests: 2, aborted: 1 },
    ...{ failovers: 2, auditsPassed: 2, auditsFailed: 1 },
  });
  const { firstToken, betweenTokens, whole } = point!.latencies!;
  expect([firstToken, betweenTokens, whole].map((one) => one?.count)).toEqual([1, 6, 1]);
  expect(betweenTokens!.p99 / 10).toBeCloseTo(1, 1);
  expect(firstToken!.p50 / 100).toBeCloseTo(1, 1);
  expect(history.totals).toMatchObject({ tokens: 10, requests: 2, aborted: 1, failovers: 2, auditsOpen: 1 });
});

test('what is not known is absent: no share of no prompts, no latency of no token, no usage that nobody told', () => {
  const { history, step } = open();
  step();
  const [point] = history.after(0);
  expect(point!.cacheHitRate).toBeUndefined();
  expect(point!.tokenUsage).toBeUndefined();
  const { firstToken, betweenTokens, whole } = point!.latencies!;
  expect([firstToken, betweenTokens, whole]).toEqual([undefined, undefined, undefined]);
  expect(history.latencies).toEqual({});
});

test('it holds an hour: the oldest points go, and who has some gets those after them', () => {
  const { history, step } = open();
  for (let at = 0; at < MOST_POINTS + 5; at++) step();
  const numbers = history.after(0).map(({ number }) => number);
  expect([numbers.length, numbers[0], numbers.at(-1)]).toEqual([MOST_POINTS, 6, MOST_POINTS + 5]);
  expect(history.after(MOST_POINTS + 3).map(({ number }) => number)).toEqual([MOST_POINTS + 4, MOST_POINTS + 5]);
  expect(history.after(MOST_POINTS + 5)).toEqual([]);
  // Of a caller that has more than there is.
  expect(history.after(2 ** 32 - 1)).toEqual([]);
});

test('percentiles are of the last minute, totals of all time', () => {
  const { history, step } = open();
  for (let at = 0; at < 20; at++) {
    history.tokens(1, 5);
    step();
  }
  const { betweenTokens } = history.latencies;
  expect(betweenTokens?.count).toBe(11);
  expect(history.totals.tokens).toBe(20);
  for (let at = 0; at < 12; at++) step();
  expect(history.latencies).toEqual({});
});

test('it adds a point every five seconds from its start to its end', () => {
  vi.useFakeTimers();
  try {
    const history = new FleetHistory({ serving: () => [], waiting: () => 0 });
    vi.advanceTimersByTime(60_000);
    expect(history.after(0)).toEqual([]);
    history.start();
    vi.advanceTimersByTime(3 * INTERVAL_MS);
    expect(history.after(0).map(({ number }) => number)).toEqual([1, 2, 3]);
    history.close();
    vi.advanceTimersByTime(60_000);
    expect(history.after(3)).toEqual([]);
  } finally {
    vi.useRealTimers();
  }
});
