import type { JoinRequest } from './messages.ts';
import { fetchManifest } from './model-files.ts';
import { readPageBuild } from './page-build.ts';
import type { Ask } from './relay-access.ts';

/** Whether the relay serves another model or another page by now: a reload brings what it asks for. */
export async function isOutdated(
  { relayUrl, build }: JoinRequest,
  digest: string,
  signal: AbortSignal,
  ask: Ask = fetch,
): Promise<boolean> {
  try {
    if ((await fetchManifest(relayUrl, signal, ask)).digest !== digest) return true;
    return (await readPageBuild(relayUrl, signal)).pageHash !== build.pageHash;
  } catch {
    return false;
  }
}
