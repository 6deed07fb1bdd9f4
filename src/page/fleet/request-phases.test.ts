import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { RequestTimelineSchema } from '../../contract/gen/fleet_monitor_pb.ts';
import { outcomeWords, phasesOf, scaleEnd } from './request-phases.ts';

const request = (init: MessageInitShape<typeof RequestTimelineSchema>) =>
  create(RequestTimelineSchema, { arrivedAtMs: 1_000, ...init });

test('queued, prefill, decode, with its move and its end', () => {
  const stays = [
    { rank: 3, atMs: 1_010 },
    { rank: 5, atMs: 1_500 },
  ];
  const ended = { firstTokenAtMs: 1_100, endedAtMs: 2_000, outcome: 'complete', given: 2 };
  const { phases, moves, totalMs, open, events } = phasesOf(request({ stays, ...ended }), 9_000);
  expect(phases).toEqual([
    { name: 'queued', fromMs: 0, toMs: 10 },
    { name: 'prefill', fromMs: 10, toMs: 100 },
    { name: 'decode', fromMs: 100, toMs: 1_000 },
  ]);
  expect([moves, totalMs, open]).toEqual([[{ atMs: 500, rank: 5 }], 1_000, false]);
  expect(events.map(({ atMs, what }) => `${atMs} ${what}`)).toEqual([
    '0 came',
    '10 given to rank 3',
    '100 first token',
    '500 went on at rank 5',
    '1000 ended: complete',
  ]);
});

test('an open request has come as far as it is now', () => {
  expect(phasesOf(request({}), 1_400)).toMatchObject({
    phases: [{ name: 'queued', fromMs: 0, toMs: 400 }],
    totalMs: 400,
    open: true,
  });
  const { phases, events } = phasesOf(request({ stays: [{ rank: 0, atMs: 1_100 }] }), 1_400);
  expect(phases.at(-1)).toEqual({ name: 'prefill', fromMs: 100, toMs: 400 });
  expect(events.map(({ what }) => what)).toEqual(['came', 'given to rank 0']);
});

test('one that failed in the queue was queued to its end', () => {
  const { phases, events } = phasesOf(request({ endedAtMs: 1_300, outcome: 'DeadlineExceeded' }), 5_000);
  expect(phases).toEqual([{ name: 'queued', fromMs: 0, toMs: 300 }]);
  expect(events.at(-1)?.what).toBe('ended: deadline exceeded');
  expect(outcomeWords('left')).toBe('its client left');
});

test('a scale ends at a round number above', () => {
  expect([0, 0.3, 1, 1.1, 4, 51, 999, 5_000].map(scaleEnd)).toEqual([1, 0.5, 1, 2, 5, 100, 1_000, 5_000]);
});
