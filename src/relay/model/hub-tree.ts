import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Hub, HubUnreachableError } from './hub.ts';
import { ModelError } from './model-error.ts';
import type { HubReference } from './model-reference.ts';
import { replaceFile } from './replace-file.ts';

/** A file of a repository at a commit. */
export interface HubFile {
  /** Inside the repository, with forward slashes. */
  readonly path: string;
  /** In bytes. */
  readonly size: number;
  /** Git's own hash of the content, or SHA-256 where Git has only a pointer to it; hex. */
  readonly hash: { readonly kind: 'git' | 'sha256'; readonly hex: string };
}

const COMMIT = /^[0-9a-f]{40}$/;
const MOST_PAGES = 100;

/**
 * The commit that a revision is. What it was when it was last asked for is remembered in `home`, for when the hub is
 * out of reach; `onOffline` is told of that.
 */
export async function resolveRevision(
  hub: Hub,
  { repository, revision }: HubReference,
  home: string,
  onOffline: (reason: string) => void,
  signal?: AbortSignal,
): Promise<string> {
  if (COMMIT.test(revision)) return revision;
  const remembered = join(home, 'revisions', encodeURIComponent(revision));
  const url = hub.url(`/api/models/${repository}/revision/${encodeURIComponent(revision)}`);
  const what = `hf:${repository}@${revision}`;
  try {
    const { value } = await hub.json(url, what, signal);
    const commit = (value as { sha?: unknown } | null)?.sha;
    if (typeof commit !== 'string' || !COMMIT.test(commit))
      throw new ModelError(`${what}: ${url.host} names no commit`);
    await replaceFile(remembered, commit);
    return commit;
  } catch (error) {
    if (!(error instanceof HubUnreachableError)) throw error;
    const commit = await readFile(remembered, 'utf8').catch(() => '');
    if (!COMMIT.test(commit)) throw error;
    onOffline(error.message);
    return commit;
  }
}

/** The files in a folder of a repository, by name; '' is its root. A commit's are asked for once. */
export async function listFiles(
  hub: Hub,
  repository: string,
  commit: string,
  folder: string,
  home: string,
  signal?: AbortSignal,
): Promise<ReadonlyMap<string, HubFile>> {
  const remembered = join(home, 'trees', `${commit}${folder && `-${encodeURIComponent(folder)}`}.json`);
  const text = await readFile(remembered, 'utf8').catch(() => undefined);
  const what = `hf:${repository}@${commit.slice(0, 12)}${folder && `/${folder}`}`;
  if (text !== undefined) return filesOf(JSON.parse(text), folder, what);

  const at = folder.split('/').map(encodeURIComponent).join('/');
  let url: URL | undefined = hub.url(`/api/models/${repository}/tree/${commit}${at && `/${at}`}`);
  const entries: unknown[] = [];
  for (let pages = 0; url; pages++) {
    if (pages === MOST_PAGES) throw new ModelError(`${what}: ${url.host} lists files without end`);
    const { value, next }: { value: unknown; next: URL | undefined } = await hub.json(url, what, signal);
    if (!Array.isArray(value)) throw new ModelError(`${what}: ${url.host} lists no files`);
    entries.push(...value);
    url = next;
  }
  const files = filesOf(entries, folder, what);
  await replaceFile(remembered, JSON.stringify(entries));
  return files;
}

/** Names that could leave the folder are no model's. */
const NAME = /^[\w-][\w .+-]*$/;

function filesOf(entries: readonly unknown[], folder: string, what: string): Map<string, HubFile> {
  const files = new Map<string, HubFile>();
  const prefix = folder && `${folder}/`;
  for (const entry of entries) {
    const { type, path, size, oid, lfs } = (entry ?? {}) as Record<string, unknown>;
    if (type !== 'file' || typeof path !== 'string' || !path.startsWith(prefix)) continue;
    const name = path.slice(prefix.length);
    if (!NAME.test(name)) continue;
    const large = (lfs ?? undefined) as { oid?: unknown; size?: unknown } | undefined;
    const bytes = large?.size ?? size;
    const hex = large ? String(large.oid).replace(/^sha256:/, '') : String(oid);
    if (!Number.isSafeInteger(bytes) || (bytes as number) < 0 || !(large ? /^[0-9a-f]{64}$/ : COMMIT).test(hex)) {
      throw new ModelError(`${what}: the hub tells no size and hash of ${path}`);
    }
    files.set(name, { path, size: bytes as number, hash: { kind: large ? 'sha256' : 'git', hex } });
  }
  return files;
}
