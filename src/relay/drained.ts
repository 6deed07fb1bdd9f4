import type { Writable } from 'node:stream';

/** Waits until a writable takes more. False where it closed first, or its reader stalled for `stallMs`. */
export function drained(writable: Writable, stallMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    if (writable.destroyed || writable.closed) {
      resolve(false);
      return;
    }
    const settle = (ok: boolean) => {
      clearTimeout(timer);
      writable.off('drain', onDrain);
      writable.off('close', onClose);
      resolve(ok);
    };
    const onDrain = () => settle(true);
    const onClose = () => settle(false);
    const timer = setTimeout(onClose, stallMs);
    writable.once('drain', onDrain);
    writable.once('close', onClose);
  });
}
