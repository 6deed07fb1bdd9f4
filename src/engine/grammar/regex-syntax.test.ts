import { expect, test } from 'vitest';
import { charsOf } from './char-set.ts';
import { parseRegex } from './regex-syntax.ts';

const repeated = (min: number, max: number | undefined) => ({
  type: 'repeat',
  node: { type: 'chars', set: charsOf('a') },
  min,
  max,
});

test.each([
  ['a{3}', repeated(3, 3)],
  ['a{0,999999}', repeated(0, 999_999)],
  ['a{2,}', repeated(2, undefined)],
  ['a{007}', repeated(7, 7)],
  ['a{0,0}', repeated(0, 0)],
])('%s is a count', (text, node) => {
  expect(parseRegex(text)).toEqual(node);
});

test.each([
  ['a{1000000}', /a count is over 999999/],
  ['a{1,1000000}', /a count is over 999999/],
  [`a{${'9'.repeat(1_000)}}`, /a count is over 999999/],
  // Python's "up to three" is five characters to JavaScript.
  ['a{,3}', /a count without its least/],
  ['a{1,00}', /ends before it starts/],
  ['a{3,2}', /ends before it starts/],
])('%s is refused, and not taken for what it is not', (text, reason) => {
  expect(() => parseRegex(text)).toThrow(reason);
});

test.each(['a{', 'a{}', 'a{b}', 'a{1', 'a{1,x}', 'a{x,1}'])('the bracket in %s is one', (text) => {
  expect(parseRegex(text)).toEqual({
    type: 'sequence',
    nodes: [...text].map((char) => ({ type: 'chars', set: charsOf(char) })),
  });
});
