import { signal } from '@preact/signals';

/** Readouts follow the pointer no more often: with the polls the view is drawn four times a second at most. */
const EVERY_MS = 400;

/** Number of the point that all charts read out; undefined: the last. */
export const cursor = signal<number | undefined>(undefined);

let wanted: number | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Moves the readout of all charts: at once where it has rested, else a little later. */
export function moveCursor(index: number | undefined): void {
  wanted = index;
  if (timer !== undefined) return;
  cursor.value = wanted;
  timer = setTimeout(() => {
    timer = undefined;
    if (cursor.value !== wanted) moveCursor(wanted);
  }, EVERY_MS);
}
