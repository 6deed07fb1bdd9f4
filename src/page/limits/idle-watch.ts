import { signal } from '@preact/signals';

/** https://wicg.github.io/idle-detection: so far in Chromium only, and TypeScript doesn't know it. */
interface IdleDetector extends EventTarget {
  readonly userState: 'active' | 'idle' | null;
  readonly screenState: 'locked' | 'unlocked' | null;
  start(options: { readonly threshold: number }): Promise<void>;
}

interface IdleDetectorClass {
  new (): IdleDetector;
  requestPermission(): Promise<'granted' | 'denied'>;
}

/** Nobody has touched the computer for so long: the least that browsers take. */
const IDLE_MS = 60_000;
const { IdleDetector } = globalThis as { IdleDetector?: IdleDetectorClass };

/** The browser can tell a page whether its computer is in use. */
export const idleOffered = IdleDetector !== undefined;
/** Whether somebody uses this computer; 'unknown': the browser was not asked, or does not say. */
export const use = signal<'unknown' | 'denied' | 'active' | 'idle'>('unknown');

let watching: Promise<void> | undefined;

/** Watches from now on where the browser allows it. `ask`: a user's click, in which the browser may ask them. */
export function watchUse(ask: boolean): Promise<void> {
  watching ??= start(ask).catch((error: Error) => {
    watching = undefined;
    use.value = error.name === 'NotAllowedError' ? 'denied' : 'unknown';
  });
  return watching;
}

async function start(ask: boolean): Promise<void> {
  if (!IdleDetector) return;
  if (ask && (await IdleDetector.requestPermission()) === 'denied') {
    throw new DOMException('the user said no', 'NotAllowedError');
  }
  const detector = new IdleDetector();
  const tell = () => {
    if (detector.userState === null) return;
    use.value = detector.userState === 'idle' || detector.screenState === 'locked' ? 'idle' : 'active';
  };
  detector.addEventListener('change', tell);
  await detector.start({ threshold: IDLE_MS });
  tell();
}
