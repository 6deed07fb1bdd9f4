import { expect, test } from 'vitest';
import { NEWCOMER_PASSES, Standings, shareOf } from './standing.ts';

test('a newcomer is audited ten times as often, and never more than always', () => {
  expect(shareOf(0.02, true)).toBeCloseTo(0.2);
  expect(shareOf(0.02, false)).toBe(0.02);
  expect(shareOf(0.5, true)).toBe(1);
  expect(shareOf(0, true)).toBe(0);
});

test('who is suspected is a newcomer again, until it passed as often', () => {
  const standings = new Standings();
  const pass = (times: number) => {
    for (let at = 0; at < times; at++) standings.passed('one');
  };
  expect(standings.isWatched('one')).toBe(true);
  pass(NEWCOMER_PASSES);
  expect(standings.isWatched('one')).toBe(false);
  standings.suspect('one');
  standings.suspect('one');
  standings.failed('one');
  expect(standings.of('one')).toMatchObject({ passes: NEWCOMER_PASSES, fails: 1, suspicions: 2 });
  pass(NEWCOMER_PASSES - 1);
  expect(standings.isWatched('one')).toBe(true);
  standings.clear('one');
  expect(standings.of('one').suspicions).toBe(1);
  pass(1);
  expect(standings.isWatched('one')).toBe(false);
  expect(standings.of('one')).toMatchObject({ passes: 2 * NEWCOMER_PASSES, suspicions: 0 });
  standings.clear('nobody');
  expect(standings.of('nobody')).toEqual({ passes: 0, fails: 0, suspicions: 0 });
});

test('who lied is forgotten', () => {
  const standings = new Standings();
  standings.passed('one');
  standings.passed('other');
  standings.forget('one');
  expect(standings.of('one').passes).toBe(0);
  expect(standings.of('other').passes).toBe(1);
});

test('of many node ids those that were used last are remembered', () => {
  const standings = new Standings();
  standings.passed('first');
  for (let at = 0; at < 4_096; at++) standings.passed(`node-${at}`);
  expect(standings.of('first').passes).toBe(0);
  expect(standings.of('node-4095').passes).toBe(1);
});
