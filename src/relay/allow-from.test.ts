import { expect, test } from 'vitest';
import { AllowFrom } from './allow-from.ts';

test.each([
  [[], '127.0.0.1', true],
  [[], '::1', true],
  [[], '::ffff:127.0.0.1', true],
  [[], '10.0.0.1', false],
  [['10.0.0.0/8'], '10.255.0.1', true],
  [['10.0.0.0/8'], '11.0.0.1', false],
  [['10.0.0.0/8'], '::ffff:10.1.2.3', true],
  [['10.0.0.0/8'], '::ffff:11.1.2.3', false],
  [['10.0.0.0/8'], '::a01:203', false],
  [['192.168.1.7'], '192.168.1.7', true],
  [['192.168.1.7'], '192.168.1.8', false],
  [['0.0.0.0/0'], '8.8.8.8', true],
  [['0.0.0.0/0'], '2001:db8::1', false],
  [['fd00::/8', '10.0.0.0/8'], 'fd12::9', true],
  [['fd00::/8'], 'fe80::1', false],
  [['2001:db8::5'], '2001:db8::5', true],
  [['::/0'], '2001:db8::1', true],
] as const)('of %j, %s: %s', (ranges, address, allowed) => {
  expect(new AllowFrom(ranges).has(address)).toBe(allowed);
});

test.each([
  '10.0.0.0/33',
  '10.0.0/8',
  'example.org',
  '',
  '10.0.0.0/',
  '10.0.0.0/8/8',
  'fd00::/129',
  '10.0.0.0/-1',
  '10.0.0.0/8a',
])('%j is no range', (range) => {
  expect(() => new AllowFrom([range])).toThrow(
    new RangeError(`${range} is no range of addresses, such as 10.0.0.0/8.`),
  );
});
