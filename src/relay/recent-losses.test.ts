import { expect, test } from 'vitest';
import { RecentLosses } from './recent-losses.ts';
import { SpeedMeter } from './speed-meter.ts';

test('losses add up, fade with time, and are bounded in number', () => {
  let now = 0;
  const losses = new RecentLosses(() => now);
  losses.add('a');
  losses.add('a');
  losses.add('b');
  expect([losses.of('a'), losses.of('b'), losses.of('c')]).toEqual([2, 1, 0]);
  now += 300_000;
  losses.add('b');
  expect([losses.of('a'), losses.of('b')]).toEqual([1, 1.5]);
  now += 3_000_000;
  expect(losses.of('a')).toBe(0);
  for (let at = 0; at < 10_000; at++) losses.add(`node-${at}`);
  expect(losses.remembered).toBe(4_096);
  expect([losses.of('node-0'), losses.of('node-9999')]).toEqual([0, 1]);
});

test('speed is known after some tokens, and follows what comes', () => {
  const meter = new SpeedMeter();
  meter.add(7, 700);
  expect(meter.tokensPerSecond).toBeUndefined();
  meter.add(3, 300);
  expect(meter.tokensPerSecond).toBeCloseTo(10);
  for (let at = 0; at < 2_000; at++) meter.add(1, 20);
  expect(meter.tokensPerSecond).toBeCloseTo(50, 0);
  // All at once, however it came about, is fast and not infinite.
  const burst = new SpeedMeter();
  burst.add(64, 0);
  expect(burst.tokensPerSecond).toBe(64_000);
});
