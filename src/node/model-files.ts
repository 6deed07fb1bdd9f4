import { CheckpointError } from '../checkpoint/checkpoint.ts';
import { type Manifest, type ManifestFile, parseManifest, sha256Hex } from '../checkpoint/manifest.ts';

/** How long a model file may stand still before its download counts as failed, in milliseconds. */
const STALL_MS = 30_000;

/** The files of the model that a relay serves, whole and checked. */
export interface ModelFiles {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest's text, hex. */
  readonly digest: string;
  /** Bytes of one file; undefined where the manifest has none of that name. */
  bytes(name: string): Uint8Array | undefined;
  text(name: string): string | undefined;
}

/** Reads the manifest of the model that a relay serves. */
export async function fetchManifest(relayUrl: string): Promise<{ manifest: Manifest; digest: string }> {
  const url = `${relayUrl}/model/manifest.json`;
  const response = await fetch(url, { cache: 'no-store', signal: AbortSignal.timeout(STALL_MS) });
  if (!response.ok) throw new CheckpointError(`${url}: status ${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const manifest = parseManifest(new TextDecoder().decode(bytes), url);
  return { manifest, digest: await sha256Hex(bytes) };
}

/**
 * Downloads the manifest's files one after another and checks size and SHA-256 of each.
 * Throws CheckpointError naming the file.
 */
export async function fetchModelFiles(
  relayUrl: string,
  onProgress: (loadedBytes: number, totalBytes: number) => void,
): Promise<ModelFiles> {
  const { manifest, digest } = await fetchManifest(relayUrl);
  const total = manifest.files.reduce((sum, file) => sum + file.size, 0);
  const contents = new Map<string, Uint8Array>();
  let loaded = 0;
  for (const file of manifest.files) {
    const url = `${relayUrl}/model/files/${file.name}`;
    const bytes = await fetchFile(url, file, (count) => onProgress(loaded + count, total));
    if ((await sha256Hex(bytes)) !== file.sha256)
      throw new CheckpointError(`${url}: the SHA-256 is not the manifest's`);
    contents.set(file.name, bytes);
    loaded += file.size;
  }
  return {
    manifest,
    digest,
    bytes: (name) => contents.get(name),
    text: (name) => {
      const bytes = contents.get(name);
      return bytes && new TextDecoder().decode(bytes);
    },
  };
}

/** Straight into one buffer of the size that the manifest tells, so that no second copy is ever made. */
async function fetchFile(url: string, file: ManifestFile, onBytes: (count: number) => void): Promise<Uint8Array> {
  const abort = new AbortController();
  let stalled = setTimeout(() => abort.abort(), STALL_MS);
  try {
    const response = await fetch(url, { signal: abort.signal });
    if (!response.ok || !response.body) throw new CheckpointError(`${url}: status ${response.status}`);
    const bytes = new Uint8Array(file.size);
    let at = 0;
    const reader = response.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      clearTimeout(stalled);
      stalled = setTimeout(() => abort.abort(), STALL_MS);
      if (at + part.value.length > file.size)
        throw new CheckpointError(`${url}: more than its ${file.size} bytes came`);
      bytes.set(part.value, at);
      at += part.value.length;
      onBytes(at);
    }
    if (at !== file.size) throw new CheckpointError(`${url}: ${at} of its ${file.size} bytes came`);
    return bytes;
  } catch (error) {
    if (abort.signal.aborted) throw new CheckpointError(`${url}: nothing came for ${STALL_MS / 1000} s`);
    throw error;
  } finally {
    clearTimeout(stalled);
    abort.abort();
  }
}
