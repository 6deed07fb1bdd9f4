import { signal } from '@preact/signals';
import { fetchManifest, type ServedManifest } from '../node/model-files.ts';
import { relayAccess } from './relay-access.ts';

const BOUND_MS = 10_000;

export type ServedModel =
  | { readonly state: 'loading' }
  | ({ readonly state: 'known' } & ServedManifest)
  | { readonly state: 'unknown'; readonly why: string };

/** The model that this page's relay serves, as `askServedModel` found it last. */
export const servedModel = signal<ServedModel>({ state: 'loading' });

let asking: Promise<void> | undefined;

/** Asks the relay which model it serves; those who ask meanwhile share the answer. */
export function askServedModel(): Promise<void> {
  asking ??= ask().finally(() => {
    asking = undefined;
  });
  return asking;
}

async function ask(): Promise<void> {
  if (servedModel.value.state === 'unknown') servedModel.value = { state: 'loading' };
  try {
    const served = await fetchManifest(location.origin, AbortSignal.timeout(BOUND_MS), relayAccess().ask);
    servedModel.value = { state: 'known', ...served };
  } catch (error) {
    servedModel.value = { state: 'unknown', why: (error as Error).message };
  }
}
