import { expect, it } from 'vitest';
import { decodeHalf as ofFiles } from '../checkpoint/half.ts';
import { decodeHalf as ofKernels } from '../gpu/weight-format.ts';

it('a half is the same number in a file and in a kernel’s reference', () => {
  const all = Array.from({ length: 65_536 }, (_, bits) => bits);
  expect(all.filter((bits) => !Object.is(ofFiles(bits), ofKernels(bits)))).toEqual([]);
});
