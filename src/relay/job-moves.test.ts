import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Job } from './job.ts';
import { JobMoves } from './job-moves.ts';
import type { LinkOwner } from './link-owner.ts';
import type { NodeLink } from './node-link.ts';
import { PrefixIndex } from './prefix-index.ts';
import { RunningJob, RunningJobs } from './running-jobs.ts';
import { normalised } from './testing/normalised.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A job at a node that has told one token of it, and what leaves the node. */
function running() {
  const jobs = new RunningJobs(new PrefixIndex().open(0, 4096, 512));
  const job = new Job(1n, normalised());
  const one = new RunningJob(job, 'a-node', 100, 1n);
  jobs.add(one);
  const failed: Job[] = [];
  const link = { facts: { nodeId: 'a-node' }, token: 't' } as unknown as NodeLink;
  const owner = { couldMove: () => true, onJobFailed: (_: NodeLink, left: Job) => failed.push(left) };
  const moves = new JobMoves({
    ...{ link, jobs, tokenStallMs: 1_000, abort: () => {} },
    owner: owner as unknown as LinkOwner,
  });
  /** A report comes after so many milliseconds, with a token of the job or none. */
  const report = (ms: number, token: boolean) => {
    vi.advanceTimersByTime(ms);
    if (token) {
      one.madeTokens(job.samples[0]!);
      moves.tokensCame();
    }
    moves.move();
    return failed.length;
  };
  report(0, true);
  return report;
}

test('a node that reports, and makes no token for as long as a stall is, loses its job', () => {
  const report = running();
  for (let at = 0; at < 9; at++) expect(report(100, false)).toBe(0);
  expect(report(100, false)).toBe(1);
});

test('a pause in which nothing of it was heard is not held against it: tokens may be in the next report', () => {
  const report = running();
  expect(report(5_000, false)).toBe(0);
  expect(report(50, true)).toBe(0);
  expect(report(50, false)).toBe(0);
});

test('after such a pause it has no more time than for that report', () => {
  const report = running();
  expect(report(5_000, false)).toBe(0);
  expect(report(50, false)).toBe(1);
});

test('a node that reports seldom has no such grace at each report', () => {
  const report = running();
  expect(report(600, false)).toBe(0);
  expect(report(600, false)).toBe(1);
});
