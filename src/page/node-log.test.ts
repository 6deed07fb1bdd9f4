import { expect, test } from 'vitest';
import { logEvent, nodeLog } from './node-log.ts';

test('the log has the last hundred events, and one entry for the same one again and again', () => {
  for (let i = 0; i < 250; i++) logEvent(`event ${i}`, i % 2 === 0 ? 'warn' : undefined);
  for (let i = 0; i < 3; i++) logEvent('again');
  expect(nodeLog.value).toHaveLength(100);
  expect(nodeLog.value[0]).toMatchObject({ text: 'again', times: 3 });
  expect(nodeLog.value[1]).toMatchObject({ text: 'event 249', times: 1, tone: undefined });
  expect(nodeLog.value.at(-1)).toMatchObject({ text: 'event 151' });
  expect(new Set(nodeLog.value.map(({ id }) => id)).size).toBe(100);
});
