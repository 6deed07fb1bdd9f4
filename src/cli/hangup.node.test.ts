import { expect, test } from 'vitest';
import { Shutdown } from './shutdown.ts';

test('SIGHUP reads again what there is to read, and ends a command where there is nothing', async () => {
  const shutdown = new Shutdown();
  let reloads = 0;
  shutdown.onHangup(() => {
    reloads++;
  });
  process.emit('SIGHUP');
  process.emit('SIGHUP');
  expect([reloads, shutdown.begun]).toEqual([2, false]);

  const other = new Shutdown();
  process.emit('SIGHUP');
  expect([reloads, shutdown.begun, other.begun]).toEqual([3, false, true]);
  expect(await other.wait()).toBe(129);
});
