import { readFile, stat, statfs } from 'node:fs/promises';
import { join, posix } from 'node:path';
import type { Hub } from './hub.ts';
import { downloadFile } from './hub-download.ts';
import { type HubFile, listFiles, resolveRevision } from './hub-tree.ts';
import { ModelError } from './model-error.ts';
import { checkWholeGguf, modelFileNames, onlyGguf } from './model-file-names.ts';
import type { HubReference } from './model-reference.ts';
import { progressLines } from './progress-lines.ts';

export interface FetchOptions {
  /** See cacheDir. */
  readonly cache: string;
  readonly onProgress: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Fetches what a model of the hub's needs, and nothing else, into `hub/<host>/<owner>--<name>/<commit>` of the cache;
 * what is there already is not fetched again. The revision is pinned to the commit that it is now. Rejects with
 * ModelError, or CheckpointError where the model's index is none. `url` is where the hub has the files, and ends with a slash.
 */
export async function fetchHubModel(
  reference: HubReference,
  hub: Hub,
  { cache, onProgress, signal }: FetchOptions,
): Promise<{ readonly kind: 'folder' | 'gguf'; readonly path: string; readonly url: string }> {
  const { repository } = reference;
  const home = join(cache, 'hub', hub.endpoint.host.replace(':', '_'), repository.replace('/', '--'));
  try {
    const offline = (reason: string) => onProgress(`${reason}; what hf:${repository} was before is served`);
    const commit = await resolveRevision(hub, reference, home, offline, signal);
    const where = `hf:${repository}@${commit.slice(0, 12)}`;
    const inside = reference.file === undefined ? '' : posix.dirname(reference.file).replace(/^\.$/, '');
    const files = await listFiles(hub, repository, commit, inside, home, signal);
    const folder = join(home, commit);
    const at = inside && `${inside.split('/').map(encodeURIComponent).join('/')}/`;
    const url = hub.url(`/${repository}/resolve/${commit}/${at}`).href;
    /** Those of a folder in it are listed once something of them is wanted. */
    const all = new Map(files);
    const listFolders = async (names: readonly string[]) => {
      const folders = names.filter((name) => !all.has(name) && name.includes('/')).map((name) => posix.dirname(name));
      for (const below of new Set(folders)) {
        const listed = await listFiles(hub, repository, commit, posix.join(inside, below), home, signal);
        for (const [name, file] of listed) all.set(`${below}/${name}`, file);
      }
    };
    const fetch = async (names: readonly string[]) => {
      const missing = await missingFiles(names, all, folder, inside);
      const bytes = missing.reduce((sum, { file }) => sum + file.size, 0);
      const there = missing.reduce((sum, { begun }) => sum + begun, 0);
      if (missing.length === 0) return;
      await checkRoom(folder, home, bytes - there);
      if (bytes > 1 << 20) onProgress(`Fetching ${where}: ${(bytes / 1e6).toFixed(1)} MB`);
      const tell = progressLines(`Fetching ${where}`, onProgress);
      let before = 0;
      for (const { file, target } of missing) {
        const path = file.path.split('/').map(encodeURIComponent).join('/');
        const source = hub.url(`/${repository}/resolve/${commit}/${path}`);
        await downloadFile(hub, source, file, target, { signal, onBytes: (count) => tell(before + count, bytes) });
        before += file.size;
      }
    };
    const names = [...files.keys()];
    const gguf = reference.file === undefined ? onlyGguf(names, where) : posix.basename(reference.file);
    if (gguf !== undefined) {
      checkWholeGguf(gguf);
      if (!files.has(gguf)) {
        const known = names.filter((name) => name.endsWith('.gguf')).join(', ') || 'no .gguf file';
        throw new ModelError(`${where} has no ${reference.file}; it has ${known}`);
      }
      await fetch([gguf]);
      return { kind: 'gguf', path: join(folder, inside, gguf), url };
    }
    const wanted = await modelFileNames(names, where, async (name) => {
      await listFolders([name]);
      if (!all.has(name)) return undefined;
      await fetch([name]);
      return readFile(join(folder, inside, name), 'utf8');
    });
    await fetch(wanted);
    return { kind: 'folder', path: folder, url };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOSPC' && code !== 'EDQUOT') throw error;
    throw new ModelError(`there is no more room in ${cache}: make some, or name another folder in SHOAL_CACHE`);
  }
}

interface MissingFile {
  readonly file: HubFile;
  readonly target: string;
  /** Bytes of it that are there from an earlier try. */
  readonly begun: number;
}

async function sizeOf(path: string): Promise<number | undefined> {
  return (await stat(path).catch(() => undefined))?.size;
}

async function missingFiles(
  names: readonly string[],
  files: ReadonlyMap<string, HubFile>,
  folder: string,
  inside: string,
): Promise<MissingFile[]> {
  const missing: MissingFile[] = [];
  for (const name of names) {
    const file = files.get(name)!;
    const target = join(folder, inside, name);
    // Files get their names once they are whole and checked.
    if ((await sizeOf(target)) === file.size) continue;
    missing.push({ file, target, begun: (await sizeOf(`${target}.partial`)) ?? 0 });
  }
  return missing;
}

/** Throws ModelError where a download could not end well. */
async function checkRoom(folder: string, home: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(home);
  const free = bavail * bsize;
  if (free >= bytes) return;
  throw new ModelError(
    `${(bytes / 1e9).toFixed(2)} GB are to be fetched to ${folder}, where ${(free / 1e9).toFixed(2)} GB are free: make room, or name another folder in SHOAL_CACHE`,
  );
}
