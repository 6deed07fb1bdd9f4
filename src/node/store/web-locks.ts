import type { HeldLock, LockManager } from './store-locks.ts';
import { ANSWER_MS, within } from './within.ts';

/** Web Locks: https://w3c.github.io/web-locks/ */
export const webLocks: LockManager = {
  take: (name, mode, signal) =>
    hold((act) => navigator.locks.request(name, { mode, signal }, act)) as Promise<HeldLock>,
  tryTake: (name) =>
    within(
      hold((act) => navigator.locks.request(name, { ifAvailable: true }, act)),
      ANSWER_MS,
      (lock) => lock?.release(),
    ),
  async held() {
    const { held = [] } = await within(navigator.locks.query(), ANSWER_MS);
    return new Set(held.flatMap(({ name }) => (name === undefined ? [] : [name])));
  },
};

/** A lock lasts as long as the promise that its callback returns. */
function hold(request: (act: (lock: Lock | null) => Promise<void> | undefined) => Promise<unknown>) {
  return new Promise<HeldLock | undefined>((resolve, reject) => {
    request((lock) => {
      if (lock === null) {
        resolve(undefined);
        return undefined;
      }
      return new Promise<void>((release) => resolve({ release }));
    }).catch(reject);
  });
}
