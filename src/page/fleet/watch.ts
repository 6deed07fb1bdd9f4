import { effect, signal, untracked } from '@preact/signals';
import { viewerAccess, viewerToken } from '../viewer-access.ts';
import { fleetClients } from './fleet-clients.ts';
import { FleetWatch } from './fleet-watch.ts';

/** This window's watch over the fleet; what it was told stays while another view is open. */
export const watch = new FleetWatch(() => {
  const access = viewerAccess();
  if (made?.access !== access) made = { access, clients: fleetClients(access.ask) };
  return made.clients;
});

let made: { readonly access: object; readonly clients: ReturnType<typeof fleetClients> } | undefined;

let seenAs = viewerToken.value;

/** The viewer asked for no more news. */
export const held = signal(false);

/** Watches while the page is seen and the viewer wants it. Returns what ends that. */
export function watchWhileSeen(): () => void {
  const hidden = signal(document.hidden);
  const look = () => {
    hidden.value = document.hidden;
  };
  document.addEventListener('visibilitychange', look);
  const dispose = effect(() => {
    const [token, seen] = [viewerToken.value, !hidden.value && !held.value];
    // Not for what the watch itself changes: one that was refused would begin again at once.
    untracked(() => {
      // Another viewer sees nothing of what the one before was told.
      if (seenAs !== token) watch.forget();
      seenAs = token;
      if (seen) watch.start();
      else watch.stop(true);
    });
  });
  return () => {
    document.removeEventListener('visibilitychange', look);
    dispose();
    watch.stop();
  };
}
