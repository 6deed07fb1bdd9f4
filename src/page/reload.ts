import { rejoinOnReload } from './link.ts';

const KEY = 'shoal.reloads';
const DEVICE_KEY = 'shoal.had-device';
const MOST = 3;
const WITHIN_MS = 600_000;

/**
 * Reloads the page and joins again. At most three times in ten minutes: a relay whose page never becomes the one it
 * asks for must not make this one spin. False: it would be the fourth.
 */
export function reloadPage(): boolean {
  // Of a browser that keeps nothing: the next page would know neither how many came before it nor that it is to join.
  if (!(sessionStorage instanceof Storage)) return false;
  const now = Date.now();
  const recent = (JSON.parse(sessionStorage.getItem(KEY) ?? '[]') as number[]).filter((at) => at > now - WITHIN_MS);
  if (recent.length >= MOST) return false;
  sessionStorage.setItem(KEY, JSON.stringify([...recent, now]));
  rejoinOnReload();
  location.reload();
  return true;
}

/** This tab has a GPU device: where its adapter is away later, also after a reload, it may come back. */
export function rememberDevice(): void {
  sessionStorage.setItem(DEVICE_KEY, '1');
}

export function hadDevice(): boolean {
  return sessionStorage.getItem(DEVICE_KEY) !== null;
}
