import { signal } from '@preact/signals';

/** A tab counts as audible above -72 dBFS (Chromium's audio power monitor); nobody hears 20 Hz at -60. */
const HERTZ = 20;
const GAIN = 1e-3;

/** 'blocked': browsers play nothing before somebody has clicked on the page. undefined: nothing is to be played. */
export const sound = signal<'plays' | 'blocked' | undefined>(undefined);

let context: AudioContext | undefined;

/** Plays from now on what nobody hears, or no more: browsers leave tabs alone that play. */
export function playQuietly(wish: boolean): void {
  if (wish) start();
  else stop();
}

function start(): void {
  if (context) return;
  const own = new AudioContext();
  context = own;
  const level = new GainNode(own, { gain: GAIN });
  const tone = new OscillatorNode(own, { frequency: HERTZ });
  tone.connect(level).connect(own.destination);
  tone.start();
  const tell = () => {
    if (context === own) sound.value = own.state === 'running' ? 'plays' : 'blocked';
  };
  own.addEventListener('statechange', tell);
  tell();
  // Settles with the first click, where it is blocked before.
  void own.resume().catch(() => {});
}

function stop(): void {
  const own = context;
  context = undefined;
  sound.value = undefined;
  void own?.close().catch(() => {});
}

for (const event of ['pointerdown', 'keydown']) {
  addEventListener(event, () => {
    if (context?.state === 'suspended') void context.resume().catch(() => {});
  });
}
