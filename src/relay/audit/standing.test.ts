import { expect, test } from 'vitest';
import { NEWCOMER_PASSES, Standings, shareOf } from './standing.ts';

const sample = (job: number) => ({ job: String(job), request: 'r', index: 0 });

test('a newcomer is audited ten times as often, and never more than always', () => {
  expect(shareOf(0.02, 0)).toBeCloseTo(0.2);
  expect(shareOf(0.02, NEWCOMER_PASSES)).toBe(0.02);
  expect(shareOf(0.5, 0)).toBe(1);
  expect(shareOf(0, 0)).toBe(0);
});

test('what a node made in the last ten minutes is flagged, the newest thousand of it, once', () => {
  let now = 0;
  const standings = new Standings(() => now);
  standings.made('one', sample(0));
  now = 500_000;
  for (let job = 1; job <= 1_200; job++) standings.made('one', sample(job));
  standings.made('other', sample(7));
  standings.passed('one');
  expect(standings.passes('one')).toBe(1);
  const flagged = standings.remove('one');
  expect(flagged.length).toBe(1_000);
  expect(flagged.at(-1)?.job).toBe('1200');
  expect(standings.remove('one')).toEqual([]);
  expect(standings.passes('one')).toBe(0);
  now = 1_200_000;
  expect(standings.remove('other')).toEqual([]);
});

test('of many node ids those that were used last are remembered', () => {
  const standings = new Standings();
  standings.passed('first');
  for (let at = 0; at < 4_096; at++) standings.passed(`node-${at}`);
  expect(standings.passes('first')).toBe(0);
  expect(standings.passes('node-4095')).toBe(1);
});
