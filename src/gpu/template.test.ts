import { expect, test } from 'vitest';
import { expandTemplate } from './template.ts';

test('repeats blocks, inside one another too', () => {
  const code = ['#for r ROWS', 'let w$r = at + $ru;', '  #for c COLUMNS', '  s$r_$c += w$r;', '  #end', '#end', 'end'];
  expect(expandTemplate(code.join('\n'), { ROWS: 2, COLUMNS: 2 }).split('\n')).toEqual([
    ...['let w0 = at + 0u;', '  s0_0 += w0;', '  s0_1 += w0;'],
    ...['let w1 = at + 1u;', '  s1_0 += w1;', '  s1_1 += w1;'],
    'end',
  ]);
});

test('keeps what a condition asks for', () => {
  const code = '#if A\na\n#end\n#if B\nb\n#end\nc';
  expect(expandTemplate(code, { A: 1, B: 0 })).toBe('a\nc');
  expect(expandTemplate(code, { A: 0, B: 3 })).toBe('b\nc');
});

test('names what is wrong', () => {
  expect(() => expandTemplate('#for r ROWS\n#end', {})).toThrow('line 1 names ROWS');
  expect(() => expandTemplate('a\n#if A\nb', { A: 1 })).toThrow('the block of line 2 has no end');
  expect(() => expandTemplate('a\n#end', {})).toThrow('line 2 ends what nothing began');
});
