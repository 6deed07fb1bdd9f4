import { signal } from '@preact/signals';

/** https://w3c.github.io/battery: in Chromium only, and TypeScript doesn't know it. */
interface BatteryManager extends EventTarget {
  readonly charging: boolean;
}

interface BatteryNavigator {
  getBattery?(): Promise<BatteryManager>;
}

const browser = navigator as BatteryNavigator;

/** The browser can tell a page whether its computer runs on battery. */
export const powerOffered = browser.getBattery !== undefined;
/** A computer without a battery is plugged in. undefined: no answer yet; 'silent': the browser does not say. */
export const power = signal<'silent' | 'plugged-in' | 'battery' | undefined>(undefined);

let watching: Promise<void> | undefined;

/** Watches from now on where the browser allows it. */
export function watchPower(): Promise<void> {
  watching ??= start().catch(() => {
    // The next time that the user asks for it is another try.
    watching = undefined;
    power.value = 'silent';
  });
  return watching;
}

async function start(): Promise<void> {
  const battery = await browser.getBattery?.();
  if (!battery) return;
  const tell = () => {
    power.value = battery.charging ? 'plugged-in' : 'battery';
  };
  battery.addEventListener('chargingchange', tell);
  tell();
}
