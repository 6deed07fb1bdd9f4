import { expect, test } from 'vitest';
import { decodeHalf } from './half.ts';

test('every half has the value that IEEE 754 says', () => {
  const wrong: number[] = [];
  for (let bits = 0; bits < 0x10000; bits++) {
    const sign = bits >> 15 ? -1 : 1;
    const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
    const finite = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
    const expected = exponent < 31 ? sign * finite : fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
    if (!Object.is(decodeHalf(bits), expected)) wrong.push(bits);
  }
  expect(wrong).toEqual([]);
});
