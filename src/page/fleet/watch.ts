import { effect, signal } from '@preact/signals';
import { viewerAccess } from '../viewer-access.ts';
import { fleetClients } from './fleet-clients.ts';
import { FleetWatch } from './fleet-watch.ts';

/** This window's watch over the fleet; what it was told stays while another view is open. */
export const watch = new FleetWatch(() => {
  const access = viewerAccess();
  if (made?.access !== access) made = { access, clients: fleetClients(access.ask) };
  return made.clients;
});

let made: { readonly access: object; readonly clients: ReturnType<typeof fleetClients> } | undefined;

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
    if (hidden.value || held.value) watch.stop(true);
    else watch.start();
  });
  return () => {
    document.removeEventListener('visibilitychange', look);
    dispose();
    watch.stop();
  };
}
