import { expect, test } from 'vitest';
import config from '../vitest.config.ts';
import { LANES } from './lanes.js';

test('every project runs in one lane', () => {
  const names = (config.test!.projects as { test: { name: string } }[]).map(({ test }) => test.name);
  expect(LANES.flat().sort()).toEqual(names.sort());
});
