import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { GetHistoryResponseSchema, type HistoryPointSchema } from '../../contract/gen/fleet_monitor_pb.ts';
import { HistoryColumns } from './history-columns.ts';
import { minutesOf } from './minutes.ts';

type Point = MessageInitShape<typeof HistoryPointSchema>;

function answer(relayEpoch: bigint, nowMs: number, points: Point[]) {
  return create(GetHistoryResponseSchema, { relayEpoch, nowMs, points });
}

test('points become columns in this browser’s time; unknown is null, which is no zero', () => {
  const columns = new HistoryColumns();
  const whole = { count: 2, p50: 100, p90: 200, p99: 300 };
  const points = [
    { number: 1, atMs: 5_000, tokensPerSecond: 7, cacheHitRate: 0 },
    { number: 2, atMs: 10_000, tokensPerSecond: 0, latencies: { whole } },
  ];
  expect(columns.take(answer(9n, 11_000, points), 1_000_011_000)).toBe(true);
  expect(columns.at).toEqual([1_000_005, 1_000_010]);
  expect(columns.column('tokensPerSecond')).toEqual([7, 0]);
  expect(columns.column('cacheHitRate')).toEqual([0, null]);
  expect(columns.column('wholeP99')).toEqual([null, 300]);
  expect(columns.known).toEqual({ relayEpoch: 9n, after: 2 });
});

test('a point comes once, an answer without one changes nothing, and times stay though clocks drift', () => {
  const columns = new HistoryColumns();
  columns.take(answer(9n, 5_000, [{ number: 1, atMs: 5_000 }]), 100_000);
  expect(columns.take(answer(9n, 6_000, []), 101_000)).toBe(false);
  const more = [
    { number: 1, atMs: 5_000 },
    { number: 2, atMs: 10_000 },
  ];
  expect(columns.take(answer(9n, 10_000, more), 105_700)).toBe(true);
  expect(columns.at).toEqual([100, 105]);
});

test('an hour is kept, and nothing of a relay that was restarted', () => {
  const columns = new HistoryColumns();
  const points = Array.from({ length: 725 }, (_, at) => ({ number: at + 1, atMs: 5_000 * at, nodes: at }));
  columns.take(answer(9n, 0, points), 0);
  expect(columns.length).toBe(720);
  expect([columns.column('nodes')[0], columns.column('nodes').at(-1)]).toEqual([5, 724]);
  columns.take(answer(10n, 5_000, [{ number: 1, atMs: 5_000, nodes: 3 }]), 0);
  expect(columns.column('nodes')).toEqual([3]);
  expect(columns.known).toEqual({ relayEpoch: 10n, after: 1 });
  columns.clear();
  expect([columns.length, columns.known.after]).toEqual([0, 0]);
});

test('minutes sum counts, take what is so at their end, and weigh percentiles by what they count', () => {
  const columns = new HistoryColumns();
  const latencies = (count: number, p50: number, p99: number) => ({ whole: { count, p50, p90: p50, p99 } });
  const points: Point[] = [
    { number: 1, atMs: 50_000, requests: 1, running: 9, latencies: latencies(1, 100, 500), tokensPerSecond: 4 },
    { number: 2, atMs: 60_000, requests: 3, running: 2, latencies: latencies(3, 200, 300), tokensPerSecond: 8 },
    { number: 3, atMs: 60_001, failovers: 1, tokenUsage: 0.5 },
  ];
  columns.take(answer(1n, 0, points), 0);
  const [second, first, ...others] = minutesOf(columns);
  expect(others).toEqual([]);
  expect(first).toMatchObject({ until: 60, requests: 4, running: 2, tokensPerSecond: 6, tokenUsage: undefined });
  expect(first!.whole).toEqual({ p50: 175, p99: 500 });
  expect(second).toMatchObject({ requests: 0, failovers: 1, tokenUsage: 0.5, whole: undefined });
});
