import { expect, test } from 'vitest';
import { Shutdown } from './shutdown.ts';

test('what was opened is closed, last first, before the command ends', async () => {
  const shutdown = new Shutdown();
  const closed: string[] = [];
  for (const name of ['relay', 'browser']) {
    shutdown.add(name, async () => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      closed.push(name);
    });
  }
  expect(shutdown.signal.aborted).toBe(false);
  shutdown.begin(7);
  expect(shutdown.signal.aborted).toBe(true);
  expect(await shutdown.wait()).toBe(7);
  expect(closed).toEqual(['browser', 'relay']);
});

test('what is opened after the end began is closed at once, and waited for', async () => {
  const shutdown = new Shutdown();
  const closed: string[] = [];
  let opened = () => {};
  const opening = new Promise<void>((resolve) => {
    opened = resolve;
  });
  const code = shutdown.run(async () => {
    await opening;
    shutdown.add('the gateway', async () => {
      closed.push('begun');
      await new Promise((resolve) => setTimeout(resolve, 20));
      closed.push('done');
    });
  });
  shutdown.begin(143);
  opened();
  expect(await code).toBe(143);
  expect(closed).toEqual(['begun', 'done']);
});

test('an opener that fails because it was stopped is no failure', async () => {
  const shutdown = new Shutdown();
  const code = shutdown.run(async () => {
    await new Promise((_, reject) => shutdown.signal.addEventListener('abort', () => reject(new Error('stopped'))));
  });
  shutdown.begin(0);
  expect(await code).toBe(0);
});

test('an opener that fails by itself ends with its error, once what it opened is closed', async () => {
  const shutdown = new Shutdown();
  let closed = false;
  const code = shutdown.run(async () => {
    shutdown.add('the relay', () => {
      closed = true;
    });
    throw new Error('no browser');
  });
  await expect(code).rejects.toThrow('no browser');
  expect(closed).toBe(true);
});
