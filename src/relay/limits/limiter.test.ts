import { Code, type ConnectError } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import { addressKey, isLoopback, plainAddress } from './address-key.ts';
import { type Limit, RequestLimiter } from './request-limiter.ts';

const LIMIT: Limit = { rate: 10, inFlight: 4, bytes: 1000 };

/** How many of `count` requests get in, each over at once. */
function pass(limiter: RequestLimiter, key: string, count: number, limit = LIMIT): number {
  let passed = 0;
  for (let at = 0; at < count; at++) {
    try {
      limiter.admit([[key, limit]]).release();
      passed++;
    } catch (error) {
      if ((error as ConnectError).code !== Code.ResourceExhausted) throw error;
    }
  }
  return passed;
}

test('twice the rate at once, the rate in the long run, and nothing of that is anyone else’s', () => {
  let now = 0;
  const limiter = new RequestLimiter(0, () => now);
  expect(pass(limiter, 'flood', 100)).toBe(20);
  expect(pass(limiter, 'other', 20)).toBe(20);
  let passed = 0;
  for (now = 1000; now <= 10_000; now += 1000) passed += pass(limiter, 'flood', 20);
  expect(passed).toBe(100);
});

test('requests in flight are bounded, and one that is over makes room once', () => {
  const limiter = new RequestLimiter(0, () => 0);
  const open = Array.from({ length: 4 }, () => limiter.admit([['a', LIMIT]]));
  expect(() => limiter.admit([['a', LIMIT]])).toThrow('More than 4 requests at a time');
  limiter.admit([['b', LIMIT]]);
  open[0]!.release();
  open[0]!.release();
  limiter.admit([['a', LIMIT]]);
  expect(() => limiter.admit([['a', LIMIT]])).toThrow('More than 4');
});

test('a body of the largest size comes through, and the next waits for its bytes', () => {
  let now = 0;
  const limiter = new RequestLimiter(10_000, () => now);
  limiter.admit([['a', LIMIT]]).takeBytes(10_000);
  const next = limiter.admit([['a', LIMIT]]);
  expect(() => next.takeBytes(1)).toThrow('Bytes come too fast: try again in 1 s');
  now = 9_999;
  next.takeBytes(9_999);
});

test('bytes that were expected are counted once, and what comes beyond them too', () => {
  let now = 0;
  const limiter = new RequestLimiter(0, () => now);
  const admission = limiter.admit([['a', LIMIT]]);
  admission.expectBytes(1_500);
  expect(() => limiter.admit([['a', LIMIT]]).expectBytes(501)).toThrow('Bytes come too fast');
  admission.takeBytes(1_000);
  admission.takeBytes(500);
  admission.takeBytes(500);
  expect(() => admission.takeBytes(1)).toThrow('Bytes come too fast');
  now = 1_000;
  admission.takeBytes(1_000);
});

test('of two keys both let it in, or neither counts it', () => {
  const limiter = new RequestLimiter(0, () => 0);
  expect(pass(limiter, 'host', 19)).toBe(19);
  const both = () =>
    limiter
      .admit([
        ['session', LIMIT],
        ['host', LIMIT],
      ])
      .release();
  both();
  for (let at = 0; at < 5; at++) expect(both).toThrow('Requests come too fast');
  expect(pass(limiter, 'session', 100)).toBe(19);
});

test('hosts without number are forgotten once they are quiet, and refused while they are not', () => {
  let now = 0;
  const limiter = new RequestLimiter(0, () => now);
  for (let at = 0; at < 65_536; at++) limiter.admit([[String(at), LIMIT]]).release();
  expect(() => limiter.admit([['new', LIMIT]])).toThrow('Too many hosts');
  expect(limiter.size).toBe(65_536);
  limiter.admit([['7', LIMIT]]).release();
  now = 60_000;
  limiter.admit([['new', LIMIT]]);
  expect(limiter.size).toBe(1);
});

test.each([
  ['10.1.2.3', '10.1.2.3'],
  ['::ffff:10.1.2.3', '10.1.2.3'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:0db8:0001:0002::9', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::', '0:0:0:0::/64'],
])('%s is counted as %s', (address, key) => {
  expect(addressKey(address)).toBe(key);
});

test('loopback, and what only looks like it', () => {
  expect(['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1', 'localhost'].filter((one) => !isLoopback(one))).toEqual(
    [],
  );
  expect(
    ['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.example', '1270.0.0.1', 'localhost.example'].filter(isLoopback),
  ).toEqual([]);
  expect(plainAddress('::ffff:1.2.3.4')).toBe('1.2.3.4');
});
