import { expect, test } from 'vitest';
import {
  parseDuration,
  parseHostPort,
  parsePort,
  parsePositiveDuration,
  parseSeed,
  parseTemperature,
} from './values.ts';

test('ports are whole numbers up to 65535', () => {
  expect(parsePort('0')).toBe(0);
  expect(parsePort('65535')).toBe(65_535);
  for (const bad of ['65536', '-1', '1.5', '', '80a', ' 80']) expect(() => parsePort(bad)).toThrow(/port/);
});

test('an address is HOST:PORT, IPv6 in brackets', () => {
  expect(parseHostPort('127.0.0.1:30001')).toEqual({ host: '127.0.0.1', port: 30_001 });
  expect(parseHostPort('[::1]:1')).toEqual({ host: '::1', port: 1 });
  for (const bad of ['localhost', ':1', '::1:30001', 'a:0', 'a:65536', 'http://a:1']) {
    expect(() => parseHostPort(bad), bad).toThrow(/HOST:PORT/);
  }
});

test('durations have a unit, a bare number is seconds', () => {
  expect(parseDuration('15')).toBe(15_000);
  expect(parseDuration('500ms')).toBe(500);
  expect(parseDuration('1.5s')).toBe(1_500);
  expect(parseDuration('2m')).toBe(120_000);
  expect(parseDuration('0')).toBe(0);
  for (const bad of ['', '-1', '1h', 's', '1e9m', '100000']) expect(() => parseDuration(bad), bad).toThrow(/duration/);
  expect(() => parsePositiveDuration('0')).toThrow(/longer/);
});

test('temperature and seed', () => {
  expect(parseTemperature('0')).toBe(0);
  expect(parseTemperature('0.7')).toBe(0.7);
  for (const bad of ['', '-0.1', 'NaN', 'Infinity', 'hot']) expect(() => parseTemperature(bad), bad).toThrow();
  expect(parseSeed('9007199254740991')).toBe(Number.MAX_SAFE_INTEGER);
  for (const bad of ['9007199254740992', '-1', '1.5', '']) expect(() => parseSeed(bad), bad).toThrow(/seed/);
});
