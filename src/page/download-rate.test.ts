import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DownloadRate } from './download-rate.ts';

test('a steady download has its speed, from its first half second on and however long it takes', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1e9 }),
      fc.integer({ min: 10, max: 1_500 }),
      fc.integer({ min: 1, max: 400 }),
      (perSecond, everyMs, points) => {
        const rate = new DownloadRate();
        for (let i = 0; i <= points; i++) rate.add(7 + i * everyMs, (perSecond * i * everyMs) / 1000);
        const found = rate.perSecond(7 + points * everyMs);
        if (points * everyMs < 500) expect(found).toBeUndefined();
        else expect(found! / perSecond).toBeCloseTo(1, 6);
      },
    ),
  );
});

test('one that changes its speed or stands still is told so after seconds; one that starts again has none', () => {
  const rate = new DownloadRate();
  for (let at = 0; at <= 10_000; at += 100) rate.add(at, at * 100);
  for (let at = 10_100; at <= 16_000; at += 100) rate.add(at, 1e6 + (at - 10_000));
  expect(rate.perSecond(16_000)).toBeCloseTo(1_000, 3);
  expect(rate.perSecond(60_000)).toBeLessThan(150);
  rate.add(60_000, 5);
  expect(rate.perSecond(60_000)).toBeUndefined();
});
