import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TINY, TINY_TOKENS } from '../engine/testing/any-request.ts';
import { LIMITS, RUNNER_OPTIONS } from '../engine/testing/schedules.ts';
import { request, Served } from '../engine/testing/serve.ts';
import { WrappedRunner } from '../engine/testing/wrapped-runner.ts';
import { CpuRunner } from '../model/cpu-runner.ts';
import type { SampledRow, StepBatch } from '../model/runner.ts';
import { SHARE_RANGE } from '../page/limits/read-limits.ts';
import { BusyShare } from './busy-share.ts';
import { DutyCycle, LEAST_SHARE } from './duty-cycle.ts';

/** A clock that goes on where something takes time, and nowhere else. */
class Clock {
  ms = 0;
  readonly now = () => this.ms;
  readonly sleep = async (ms: number) => {
    this.ms += ms;
  };
}

/** A device whose steps take so long by the clock, one after the other, and that knows how many it had at once. */
class SlowRunner extends WrappedRunner {
  readonly stepMs: number;
  readonly clock: Clock;
  busyMs = 0;
  most = 0;
  #inFlight = 0;

  constructor(inner: CpuRunner, clock: Clock, stepMs: number) {
    super(inner);
    this.clock = clock;
    this.stepMs = stepMs;
  }

  override async step(batch: StepBatch): Promise<SampledRow[]> {
    this.most = Math.max(this.most, ++this.#inFlight);
    const rows = await super.step(batch);
    this.clock.ms += this.stepMs;
    this.busyMs += this.stepMs;
    this.#inFlight--;
    return rows;
  }
}

async function run(share: number, stepMs: number, requests: number) {
  const clock = new Clock();
  const duty = new DutyCycle(clock);
  duty.share = share;
  const runner = new SlowRunner(await CpuRunner.load(TINY.checkpoint, TINY.config, RUNNER_OPTIONS), clock, stepMs);
  const served = new Served(runner, TINY_TOKENS, LIMITS, { throttle: duty, now: clock.now });
  for (let at = 0; at < requests; at++) served.submit(request(BigInt(at), [1, 2, 3 + at], { maxNewTokens: 30 }));
  await served.until(() => served.allEnded());
  const ids = Array.from({ length: requests }, (_, at) => served.result(BigInt(at)).ids);
  return { runner, clock, duty, ids };
}

test.each([1, 0.5, 0.25, 0.1])('an engine with %d of the time takes no more, and gives the same ids', async (share) => {
  const { runner, clock, duty, ids } = await run(share, 12, 3);
  const taken = runner.busyMs / clock.ms;
  expect(taken).toBeLessThanOrEqual(share + 0.02);
  expect(taken).toBeGreaterThan(0.9 * share);
  expect(ids).toEqual((await run(1, 12, 3)).ids);
  // As it was measured by itself.
  expect(duty.measured()).toBeGreaterThan(0.8 * share);
  expect(duty.measured()).toBeLessThan(share + 0.1);
  if (share < 1) expect(runner.most).toBe(1);
});

test('a rest has a bound, and ends where the share is raised', async () => {
  const clock = new Clock();
  const duty = new DutyCycle(clock);
  duty.share = 0;
  duty.took(60_000);
  await duty.turn();
  expect(clock.ms).toBe(20_000);
  duty.took(1_000);
  const sleeping = duty.turn();
  duty.share = 1;
  await sleeping;
  expect(clock.ms).toBeLessThanOrEqual(20_250);
  expect(duty.turn()).toBeUndefined();
});

test("the least share is the least that the page's slider takes", () => {
  expect(SHARE_RANGE.min / 100).toBe(LEAST_SHARE);
});

test('the busy share is what steps took of the window, however they lie in it', () => {
  const step = fc.record({ rest: fc.integer({ min: 0, max: 3_000 }), ms: fc.integer({ min: 0, max: 6_000 }) });
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 5_000 }), fc.array(step, { minLength: 1, maxLength: 30 }), (start, steps) => {
      const clock = { ms: start };
      const busy = new BusyShare(10, () => clock.ms);
      const taken: [number, number][] = [];
      for (const { rest, ms } of steps) {
        clock.ms += rest;
        taken.push([clock.ms, clock.ms + ms]);
        clock.ms += ms;
        busy.add(ms);
      }
      const from = Math.max(start, (Math.floor(clock.ms / 1000) - 9) * 1000);
      const inWindow = taken.reduce((sum, [begun, end]) => sum + Math.max(0, end - Math.max(begun, from)), 0);
      expect(busy.share()).toBeCloseTo(clock.ms > from ? inWindow / (clock.ms - from) : 0, 6);
    }),
  );
});
