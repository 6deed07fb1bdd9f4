import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { ManifestQuantisation } from '../../checkpoint/manifest.ts';
import { describeModel, type ServedModel } from '../served-model.ts';
import { cacheDir } from './cache-dir.ts';
import { checkFile } from './check-file.ts';
import { type FileHashes, hashFile } from './file-hashes.ts';
import { writeGgufFolder } from './gguf-folder.ts';
import { Hub } from './hub.ts';
import { fetchHubModel } from './hub-model.ts';
import { ModelError } from './model-error.ts';
import { checkWholeGguf, modelFileNames, onlyGguf } from './model-file-names.ts';
import { readModelReference } from './model-reference.ts';
import { progressLines } from './progress-lines.ts';

export interface OpenModelOptions {
  /** What it is served as; default: what names it says. */
  readonly name?: string | undefined;
  /** How nodes quantise a model of safetensors while they load it. */
  readonly quantisation?: ManifestQuantisation | undefined;
  /** See cacheDir. */
  readonly cache?: string | undefined;
  /** Told what takes long, a line at a time. */
  readonly onProgress?: ((line: string) => void) | undefined;
  /** Gives up. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Opens the model that `--model` names: a folder with safetensors, a .gguf file or a folder with one, or one of the
 * hub's, which is fetched first. Rejects with ModelError or CheckpointError, which say what is wrong with it.
 */
export async function openModel(text: string, options: OpenModelOptions = {}): Promise<ServedModel> {
  const opening = { ...options, cache: options.cache ?? cacheDir(), onProgress: options.onProgress ?? (() => {}) };
  const reference = readModelReference(text);
  const { name } = opening;
  if (reference.kind === 'folder') return openFolder(reference.path, name ?? basename(reference.path), opening);
  if (reference.kind === 'gguf')
    return openGgufFile(reference.path, name ?? basename(reference.path, '.gguf'), opening);
  const fetched = await fetchHubModel(reference, Hub.fromEnvironment(), opening);
  const { path, url } = fetched;
  return fetched.kind === 'gguf'
    ? openGgufFile(path, name ?? reference.repository, opening, url)
    : openFolder(path, name ?? reference.repository, opening, url);
}

type Opening = OpenModelOptions & { readonly cache: string; readonly onProgress: (line: string) => void };

async function openFolder(folder: string, name: string, opening: Opening, hubUrl?: string): Promise<ServedModel> {
  const names = await readdir(folder);
  const gguf = onlyGguf(names, folder);
  if (gguf !== undefined)
    return openGgufFile(join(folder, gguf), opening.name ?? basename(gguf, '.gguf'), opening, hubUrl);
  const files = await modelFileNames(names, folder, (file) => textOf(join(folder, file)));
  const paths = Object.fromEntries(files.map((file) => [file, join(folder, file)]));
  return describeModel({ name, folder, paths, quantisation: opening.quantisation ?? 'none', hubUrl }, hasher(opening));
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    await checkFile(path);
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** Nodes take all from the .gguf itself; the files made of it are the gateway's. */
async function openGgufFile(path: string, name: string, opening: Opening, hubUrl?: string): Promise<ServedModel> {
  const { quantisation = 'none' } = opening;
  if (quantisation !== 'none') {
    throw new ModelError(`${path} brings formats of its own: --quant ${quantisation} is for safetensors`);
  }
  const file = basename(path);
  checkWholeGguf(file);
  const hash = hasher(opening);
  const hashes = await hash(path);
  const folder = join(opening.cache, 'gguf', hashes.sha256);
  await writeGgufFolder(path, folder).catch((error: NodeJS.ErrnoException) => {
    throw error.syscall === undefined
      ? error
      : new ModelError(`the tokenizer of ${file} can't be written to ${dirname(folder)}: ${error.message}`);
  });
  return describeModel({ name, folder, paths: { [file]: path }, quantisation, hubUrl }, async () => hashes);
}

type HashingOptions = Pick<Opening, 'cache' | 'onProgress' | 'signal'>;

/** Hashes files as openModel does: those of some size once, and no further than to `signal`. */
export function hasher({ cache, onProgress, signal }: HashingOptions): (path: string) => Promise<FileHashes> {
  return (path) => {
    const tell = progressLines(`Hashing ${basename(path)}`, onProgress);
    return hashFile(path, join(cache, 'hashes'), (doneBytes, totalBytes) => {
      signal?.throwIfAborted();
      tell(doneBytes, totalBytes);
    });
  };
}
