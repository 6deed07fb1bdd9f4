import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Runner, StepBatch } from '../model/runner.ts';
import { Profiling } from './profiling.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const BATCH: StepBatch = { sequences: [], logits: [] };
/** A runner that only times kernels. */
const timing = (profile: NonNullable<Runner['profile']>) => ({ profile }) as Runner;

test('a GPU that hangs while kernels are timed is told, and ends the engine', async () => {
  const profiling = new Profiling(timing(() => new Promise(() => {})));
  const answer = profiling.start({ steps: 1, byStage: false });
  const measured = profiling.measure(BATCH, 0).catch((error: Error) => error.message);
  await vi.advanceTimersByTimeAsync(80_000);
  expect(await measured).toMatch(/over 80 s: the GPU hangs/);
  expect((await answer).problem).toMatch(/the GPU hangs/);
});

test('a profile that fails says so, and steps go on', async () => {
  const profiling = new Profiling(timing(() => Promise.reject(new Error('no room'))));
  const answer = profiling.start({ steps: 1, byStage: false });
  await profiling.measure(BATCH, 0);
  expect(await answer).toEqual({ stages: [], problem: 'no room' });
  expect(profiling.active).toBe(false);
});
