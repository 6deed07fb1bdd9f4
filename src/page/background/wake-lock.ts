import { signal } from '@preact/signals';

/** https://w3c.github.io/screen-wake-lock */
export const wakeLockOffered = 'wakeLock' in navigator;
/** The browser keeps the screen on just now. undefined: nobody asks it to; a text: why it does not. */
export const awake = signal<true | string | undefined>(undefined);

let wanted = false;
let lock: WakeLockSentinel | undefined;
let asking = false;

/** Keeps the screen on from now on, or no more. Browsers do it for a tab that is shown only, and let go when it is hidden. */
export function stayAwake(wish: boolean): void {
  wanted = wish;
  if (wanted) void ask();
  else void lock?.release().catch(() => {});
}

async function ask(): Promise<void> {
  if (!wakeLockOffered || lock || asking || document.hidden) return;
  asking = true;
  try {
    const own = await navigator.wakeLock.request('screen');
    own.addEventListener('release', () => {
      if (lock !== own) return;
      lock = undefined;
      awake.value = undefined;
      // One that was let go while another was wished for already; a hidden tab asks when it is shown.
      if (wanted) void ask();
    });
    lock = own;
    awake.value = true;
    if (!wanted) void own.release().catch(() => {});
  } catch (error) {
    awake.value = (error as Error).message;
  } finally {
    asking = false;
  }
}

document.addEventListener('visibilitychange', () => {
  if (wanted) void ask();
});
