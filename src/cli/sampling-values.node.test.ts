import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import {
  parseBias,
  parseFloat32,
  parseFloats,
  parseIds,
  parseInteger,
  parseJson,
  parseText,
} from './sampling-values.ts';

const folder = mkdtempSync(join(tmpdir(), 'shoal-values-'));
afterAll(() => rmSync(folder, { recursive: true }));

function file(content: string | Uint8Array): string {
  const path = join(folder, `${Math.random()}`);
  writeFileSync(path, content);
  return `@${path}`;
}

test('numbers are what float32 and int32 hold', () => {
  expect(parseFloat32('-0.5')).toBe(-0.5);
  expect(parseFloat32('1e38')).toBe(1e38);
  for (const bad of ['', ' ', 'x', 'NaN', 'Infinity', '1e39', '0,5']) {
    expect(() => parseFloat32(bad), bad).toThrow(/must be a number/);
  }
  expect(parseInteger('-1')).toBe(-1);
  expect(parseInteger('2147483647')).toBe(2_147_483_647);
  for (const bad of ['', '1.5', '1e3', '2147483648', '-2147483649']) {
    expect(() => parseInteger(bad), bad).toThrow(/whole number/);
  }
});

test('ids come one by one or in a list, and add up', () => {
  expect(parseIds('5')).toEqual([5]);
  expect(parseIds('7,0', [5])).toEqual([5, 7, 0]);
  for (const bad of ['', '5,', '-1', '4294967296', 'a', '1 2']) expect(() => parseIds(bad), bad).toThrow(/token ids/);
});

test('biases are ID=VALUE, and the last one of an id counts', () => {
  expect(parseBias('426=-100')).toEqual({ 426: -100 });
  expect(parseBias('0426=2.5', { 426: -100, 1: 1 })).toEqual({ 426: 2.5, 1: 1 });
  for (const bad of ['', '426', '426=', '=1', '-1=2', 'a=1', '1=x', '1=Infinity', '1= ']) {
    expect(() => parseBias(bad), bad).toThrow(/ID=VALUE/);
  }
});

test('a text may stand in a file', () => {
  expect(parseText('[a-z]+')).toBe('[a-z]+');
  expect(parseText(file('{"type":"object"}\n'))).toBe('{"type":"object"}\n');
  expect(() => parseText('@/nonexistent')).toThrow(/cannot be read/);
  expect(() => parseText(file(Uint8Array.of(0x61, 0xff)))).toThrow(/cannot be read/);
  expect(parseJson(file('[1]'))).toEqual([1]);
  expect(() => parseJson('{')).toThrow(/no JSON/);
});

test('embeddings are one array or rows', () => {
  expect(parseFloats('[1, -2.5]')).toEqual([1, -2.5]);
  expect(parseFloats(file('[[1, 2], [3, 4]]'))).toEqual([1, 2, 3, 4]);
  for (const bad of ['[]', '{}', '[null]', '["1"]', '[[1],["x"]]', '[1e39]', '[[[1]]]']) {
    expect(() => parseFloats(bad), bad).toThrow(/array of numbers/);
  }
});
