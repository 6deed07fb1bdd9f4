import { effect, signal } from '@preact/signals';
import { joined, state } from '../node.ts';
import { logEvent } from '../node-log.ts';
import { playQuietly } from './quiet-sound.ts';
import { type Background, readBackground } from './read-background.ts';
import { stayAwake } from './wake-lock.ts';

const KEY = 'shoal.background';
/** As the user has set it; kept for the next visit. It counts at once. */
export const background = signal<Background>(readBackground(localStorage.getItem(KEY)));

export function setBackground(change: Partial<Background>): void {
  background.value = { ...background.value, ...change };
  localStorage.setItem(KEY, JSON.stringify(background.value));
}

effect(() => stayAwake(background.value.keepAwake && joined.value));
effect(() => playQuietly(background.value.sound && joined.value));

document.addEventListener('visibilitychange', () => {
  if (state.peek() === 'serving') logEvent(document.hidden ? 'Hidden: goes on' : 'Shown again');
});
