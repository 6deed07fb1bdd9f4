import type { JoinRequest } from './messages.ts';
import { fetchManifest } from './model-files.ts';
import { readPageBuild } from './page-build.ts';
import type { Ask } from './relay-access.ts';
import { RelayUnreachableError } from './relay-unreachable-error.ts';

/**
 * What is of another time than the relay that refuses a node: the page, which a reload brings; or only the model that it holds, which
 * can be loaded in its place. `unknown`: the relay is out of reach. Undefined: neither, or it lets this page in no more.
 */
export async function outdated(
  { relayUrl, build }: JoinRequest,
  digest: string,
  signal: AbortSignal,
  ask: Ask = fetch,
): Promise<'page' | 'model' | 'unknown' | undefined> {
  try {
    const served = await fetchManifest(relayUrl, signal, ask);
    const page = await readPageBuild(relayUrl, signal).catch(() => build);
    if (page.pageHash !== build.pageHash) return 'page';
    return served.digest === digest ? undefined : 'model';
  } catch (error) {
    return error instanceof RelayUnreachableError ? 'unknown' : undefined;
  }
}
