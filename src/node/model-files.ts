import { CheckpointError } from '../checkpoint/checkpoint.ts';
import { type Manifest, type ManifestFile, parseManifest, sha256Hex } from '../checkpoint/manifest.ts';

/** How long a model file may stand still before its download counts as failed, in milliseconds. */
const STALL_MS = 30_000;

/** The relay doesn't answer, or not with what was asked for: another try may go well. */
export class RelayUnreachableError extends Error {
  override readonly name = 'RelayUnreachableError';
}

/** The files of the model that a relay serves, whole and checked. */
export interface ModelFiles {
  /** The served model's name. */
  readonly model: string;
  /** SHA-256 of the manifest's text, hex. */
  readonly digest: string;
  readonly names: readonly string[];
  /** Undefined where the manifest has no file of that name. */
  bytes(name: string): Uint8Array | undefined;
}

/** Reads the manifest of the model that a relay serves. Rejects with RelayUnreachableError or CheckpointError. */
export async function fetchManifest(
  relayUrl: string,
  signal: AbortSignal,
): Promise<{ manifest: Manifest; digest: string }> {
  const url = `${relayUrl}/model/manifest.json`;
  const bytes = await reach(url, signal, async () => {
    const response = await fetch(url, {
      cache: 'no-store',
      signal: AbortSignal.any([signal, AbortSignal.timeout(STALL_MS)]),
    });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  });
  return { manifest: parseManifest(new TextDecoder().decode(bytes), url), digest: await sha256Hex(bytes) };
}

/**
 * Downloads the manifest's files one after another and checks size and SHA-256 of each. Rejects with
 * RelayUnreachableError, or with CheckpointError naming the file.
 */
export async function fetchModelFiles(
  relayUrl: string,
  signal: AbortSignal,
  onProgress: (loadedBytes: number, totalBytes: number) => void,
): Promise<ModelFiles> {
  const { manifest, digest } = await fetchManifest(relayUrl, signal);
  const total = manifest.files.reduce((sum, file) => sum + file.size, 0);
  const contents = new Map<string, Uint8Array>();
  let loaded = 0;
  for (const file of manifest.files) {
    const url = `${relayUrl}/model/files/${file.name}`;
    const bytes = await reach(url, signal, () =>
      fetchFile(url, file, signal, (count) => onProgress(loaded + count, total)),
    );
    if ((await sha256Hex(bytes)) !== file.sha256)
      throw new CheckpointError(`${url}: the SHA-256 is not the manifest's`);
    contents.set(file.name, bytes);
    loaded += file.size;
  }
  return { model: manifest.name, digest, names: [...contents.keys()], bytes: (name) => contents.get(name) };
}

/** Straight into one buffer of the size that the manifest tells, so that no second copy is ever made. */
async function fetchFile(
  url: string,
  file: ManifestFile,
  signal: AbortSignal,
  onBytes: (count: number) => void,
): Promise<Uint8Array> {
  const abort = new AbortController();
  const stall = () => abort.abort(new Error(`nothing came for ${STALL_MS / 1000} s`));
  let stalled = setTimeout(stall, STALL_MS);
  try {
    const response = await fetch(url, { signal: AbortSignal.any([signal, abort.signal]) });
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    const bytes = new Uint8Array(file.size);
    let at = 0;
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      clearTimeout(stalled);
      stalled = setTimeout(stall, STALL_MS);
      if (at + part.value.length > file.size) throw new Error(`more than its ${file.size} bytes came`);
      bytes.set(part.value, at);
      at += part.value.length;
      onBytes(at);
    }
    if (at !== file.size) throw new Error(`${at} of its ${file.size} bytes came`);
    return bytes;
  } finally {
    clearTimeout(stalled);
    abort.abort();
  }
}

/** What `get` brings; every failure but an abort by `signal` is one of reaching the relay. */
async function reach<T>(url: string, signal: AbortSignal, get: () => Promise<T>): Promise<T> {
  try {
    return await get();
  } catch (error) {
    signal.throwIfAborted();
    throw new RelayUnreachableError(`${url}: ${(error as Error).message}`);
  }
}
