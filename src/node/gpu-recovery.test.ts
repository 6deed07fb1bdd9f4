import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DeviceLostError } from '../engine/device-lost-error.ts';
import { GpuRecovery, lossOf } from './gpu-recovery.ts';
import type { NodeMessage } from './messages.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function recovery() {
  const posted: NodeMessage[] = [];
  const leave = new AbortController();
  return { posted, leave, own: new GpuRecovery((message) => posted.push(message), leave.signal) };
}

/** How long a wait of a node takes, in milliseconds. */
async function waited(wait: Promise<unknown>): Promise<number> {
  const start = performance.now();
  let over: number | undefined;
  void wait.then(() => {
    over = performance.now() - start;
  });
  while (over === undefined) await vi.advanceTimersByTimeAsync(100);
  return over;
}

class DeviceUnavailableError extends Error {
  override readonly name = 'DeviceUnavailableError';
}

test('eight lost devices are followed by another at once, further ones after a minute, until they are ten minutes ago', async () => {
  const { own, leave } = recovery();
  for (let losses = 0; losses < 8; losses++) expect(await waited(own.lost('why'))).toBeLessThan(1_000);
  expect(await waited(own.lost('why'))).toBeGreaterThan(59_000);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(await waited(own.lost('why'))).toBeLessThan(1_000);
  for (let losses = 0; losses < 7; losses++) await waited(own.lost('why'));
  const waiting = own.lost('why');
  leave.abort(new Error('left'));
  await expect(waiting).rejects.toThrow('left');
});

test('an adapter that is away is asked for twice a second; after three seconds the page is told, and each minute again', async () => {
  const { own, posted } = recovery();
  const away = new DeviceUnavailableError('no adapter');
  // A browser that never gave one gives none by being asked again.
  expect(own.mends(away)).toBe(false);
  own.found();
  expect(own.mends(away)).toBe(true);
  expect(own.mends(new Error('another'))).toBe(false);
  const told = () => posted.filter(({ type }) => type === 'adapter-away').length;
  let patientMs = 0;
  for (;;) {
    const ms = await waited(own.adapterAway(away));
    if (told() > 0) break;
    expect(ms).toBeLessThan(1_000);
    patientMs += ms;
  }
  expect(patientMs).toBeGreaterThanOrEqual(3_000);
  expect(patientMs).toBeLessThan(4_500);
  expect(await waited(own.adapterAway(away))).toBeGreaterThan(59_000);
  expect(told()).toBe(2);
  own.found();
  expect(await waited(own.adapterAway(away))).toBeLessThan(1_000);
  expect(told()).toBe(2);
});

test('a device that is lost while a model loads is a loss, all else is what it was', () => {
  expect(lossOf(new DeviceLostError('gone'))).toBe('gone');
  expect(() => lossOf(new Error('other'))).toThrow('other');
});
