import { expect, test } from 'vitest';
import { readLimits } from './read-limits.ts';

const NONE = { gpuShare: 1, onlyIdle: false, onlyPluggedIn: false };

test('limits are read as they were kept', () => {
  const kept = { gpuShare: 0.25, onlyIdle: true, onlyPluggedIn: true };
  expect(readLimits(JSON.stringify(kept))).toEqual(kept);
  expect(readLimits(null)).toEqual(NONE);
});

test.each(['', '{', 'null', '7', '[]', '"x"', '{"gpuShare":0}', '{"gpuShare":"1"}', '{"gpuShare":1e9,"onlyIdle":1}'])(
  '%j limits nothing',
  (text) => {
    expect(readLimits(text)).toEqual(NONE);
  },
);
