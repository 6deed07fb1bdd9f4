import { expect, test } from 'vitest';
import { PUT_OUT_MS, PutOut } from './put-out.ts';

test('an id is put out for a while, counted from its last lie', () => {
  let now = 1_000;
  const putOut = new PutOut(() => now);
  expect(putOut.leftMs('a')).toBe(0);
  putOut.add('a');
  now += PUT_OUT_MS - 1;
  expect(putOut.leftMs('a')).toBe(1);
  putOut.add('a');
  now += PUT_OUT_MS - 1;
  expect(putOut.leftMs('a')).toBe(1);
  now += 1;
  expect(putOut.leftMs('a')).toBe(0);
  expect(putOut.remembered).toBe(0);
});

test('any number of ids take bounded memory, and the newest are remembered', () => {
  let now = 0;
  const putOut = new PutOut(() => now);
  for (let id = 0; id < 50_000; id++) putOut.add(`node-${id}`);
  expect(putOut.remembered).toBe(4_096);
  expect([putOut.leftMs('node-0'), putOut.leftMs('node-49999')]).toEqual([0, PUT_OUT_MS]);
  now += PUT_OUT_MS;
  putOut.add('another');
  expect(putOut.remembered).toBe(1);
});
