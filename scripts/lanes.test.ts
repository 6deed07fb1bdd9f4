import { expect, test } from 'vitest';
import config from '../vitest.config.ts';
import { lanesOf } from './lanes.js';

test.each([false, true])('every project runs in one lane, in the long tier or not: %s', (long) => {
  const names = (config.test!.projects as { test: { name: string } }[]).map(({ test }) => test.name);
  expect(lanesOf(long).flat().sort()).toEqual(names.sort());
});
