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
/** Whether somebody uses this computer. undefined: no answer yet; 'silent': the browser does not say, by its user's word or not. */
export const use = signal<'silent' | 'active' | 'idle' | undefined>(undefined);

let watching: Promise<void> | undefined;

/** Watches from now on where the browser allows it. `ask`: a user's click, in which the browser may ask them. */
export function watchUse(ask: boolean): Promise<void> {
  watching ??= start(ask).catch(() => {
    // The next time that the user asks for it is another try.
    watching = undefined;
    use.value = 'silent';
  });
  return watching;
}

async function start(ask: boolean): Promise<void> {
  if (!IdleDetector) return;
  if (ask && (await IdleDetector.requestPermission()) === 'denied') {
    throw new Error('the user said no');
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
