import { computed, effect } from '@preact/signals';
import { idleOffered, use, watchUse } from './idle-watch.ts';
import { limits } from './limits.ts';
import { power, powerOffered, watchPower } from './power-watch.ts';

/** Why the node takes nothing new just now, by its user's limits; undefined: they let it work. */
export const hold = computed((): string | undefined => {
  // A limit that this browser can't keep is shown as one, and holds nothing.
  const onlyIdle = limits.value.onlyIdle && idleOffered;
  const onlyPluggedIn = limits.value.onlyPluggedIn && powerOffered;
  if (onlyPluggedIn && power.value === 'battery') return 'this computer runs on battery';
  if (onlyPluggedIn && power.value === 'silent') return 'the browser does not say whether this computer is plugged in';
  if (onlyIdle && use.value === 'active') return 'this computer is in use';
  if (onlyIdle && use.value === 'silent') return 'the browser does not say whether this computer is in use';
  return undefined;
});

// Kept from an earlier visit: the permission is the browser's to keep.
effect(() => {
  if (limits.value.onlyIdle) void watchUse(false);
  if (limits.value.onlyPluggedIn) void watchPower();
});
