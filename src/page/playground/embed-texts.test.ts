import { expect, onTestFinished, test, vi } from 'vitest';

test('what is asked when another viewer signs in is called off, and nothing of it stays', async () => {
  vi.stubGlobal('sessionStorage', { getItem: () => null });
  vi.stubGlobal('location', new URL('http://relay.example/'));
  onTestFinished(() => void vi.unstubAllGlobals());
  let calledOff = false;
  let tellSent = () => {};
  const sent = new Promise<void>((resolve) => {
    tellSent = resolve;
  });
  vi.stubGlobal('fetch', (_: string, { signal }: RequestInit) => {
    tellSent();
    return new Promise((_resolve, reject) => {
      signal!.addEventListener('abort', () => {
        calledOff = true;
        reject(signal!.reason);
      });
    });
  });
  const { asking, embedded, embedLines, forgetTexts, lines, problem } = await import('./embed-texts.ts');
  const example = lines.value;
  lines.value = 'a secret';
  const asked = embedLines();
  expect(asking.value).toBe(true);
  await sent;
  forgetTexts();
  await asked;
  expect(calledOff).toBe(true);
  expect([lines.value, asking.value, problem.value, embedded.value]).toEqual([example, false, undefined, undefined]);
});
