import { ConnectError } from '@connectrpc/connect';
import { CheckedSource } from '../checkpoint/checked-source.ts';
import { type Manifest, type ManifestFile, parseManifest, sha256Hex } from '../checkpoint/manifest.ts';
import type { ModelFiles } from '../engine/read-model.ts';
import { backoffMs } from './backoff.ts';
import { pause } from './pause.ts';
import type { Ask } from './relay-access.ts';

/** How long a model file may stand still before its download counts as failed, in milliseconds. */
const STALL_MS = 30_000;

/** The relay doesn't answer, or not with what was asked for: another try may go well. */
export class RelayUnreachableError extends Error {
  override readonly name = 'RelayUnreachableError';
}

/** The model that a relay serves. */
export interface ServedManifest {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest's text, hex. */
  readonly digest: string;
}

/** What is told while files come. */
export interface ModelFilesListener {
  /** Bytes that have come for the first time, of all that the model's files have; not all need be read. */
  onProgress(loadedBytes: number, totalBytes: number): void;
  /** The relay is out of reach, and is tried again; undefined: bytes come again. */
  onTrouble(trouble: string | undefined): void;
}

/**
 * Reads the manifest of the model that a relay serves. Rejects with RelayUnreachableError or CheckpointError, and with
 * ConnectError where the relay asks for a token.
 */
export async function fetchManifest(relayUrl: string, signal: AbortSignal, ask: Ask = fetch): Promise<ServedManifest> {
  const url = `${relayUrl}/model/manifest.json`;
  let bytes: Uint8Array;
  try {
    // The relay has browsers ask each time whether it still is the same.
    const response = await ask(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(STALL_MS)]) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    bytes = new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    signal.throwIfAborted();
    // It was reached, and lets nobody in without a token.
    if (error instanceof ConnectError) throw error;
    throw new RelayUnreachableError(`${url}: ${(error as Error).message}`);
  }
  return { manifest: parseManifest(new TextDecoder().decode(bytes), url), digest: await sha256Hex(bytes) };
}

/**
 * The manifest's files, read in ranges as they are asked for, each piece checked: a loader takes tensors in its own
 * order, and no file is ever held whole. A connection that is cut goes on where it was. Reads reject with
 * RelayUnreachableError where the relay serves another model by now, with CheckpointError naming the file, or when
 * `signal` aborts.
 */
export function relayFiles(
  relayUrl: string,
  manifest: Manifest,
  signal: AbortSignal,
  listener: ModelFilesListener,
  ask: Ask = fetch,
): ModelFiles {
  const totalBytes = manifest.files.reduce((sum, file) => sum + file.size, 0);
  let loadedBytes = 0;
  const onPiece = (bytes: number) => {
    loadedBytes += bytes;
    listener.onProgress(loadedBytes, totalBytes);
  };
  const sources = new Map(
    manifest.files.map((file) => {
      const url = `${relayUrl}/model/files/${file.name}`;
      const fetchRange = (offset: number, length: number) => ranges(url, file, offset, length, signal, listener, ask);
      return [file.name, new CheckedSource(file, manifest.pieceBytes, url, fetchRange, onPiece)];
    }),
  );
  return { names: [...sources.keys()], open: (name) => sources.get(name) };
}

/** A range's bytes; asks for the rest of it again whenever the connection fails. */
async function* ranges(
  url: string,
  file: ManifestFile,
  offset: number,
  length: number,
  signal: AbortSignal,
  { onTrouble }: ModelFilesListener,
  ask: Ask,
): AsyncGenerator<Uint8Array> {
  const end = offset + length;
  let failures = 0;
  for (let at = offset; at < end; ) {
    try {
      for await (const bytes of range(url, file, at, end, signal, ask)) {
        if (failures > 0) onTrouble(undefined);
        failures = 0;
        at += bytes.byteLength;
        yield bytes;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RelayUnreachableError || error instanceof ConnectError) throw error;
      onTrouble(`${url}: ${(error as Error).message}`);
      await pause(backoffMs(failures, Math.random), signal);
      failures++;
    }
  }
}

/** The bytes of one answer. Throws RelayUnreachableError where the relay has another file by now. */
async function* range(
  url: string,
  file: ManifestFile,
  from: number,
  to: number,
  signal: AbortSignal,
  ask: Ask,
): AsyncGenerator<Uint8Array> {
  const abort = new AbortController();
  const stall = () => abort.abort(new Error(`nothing came for ${STALL_MS / 1000} s`));
  let stalled = setTimeout(stall, STALL_MS);
  try {
    const response = await ask(url, {
      headers: { range: `bytes=${from}-${to - 1}` },
      signal: AbortSignal.any([signal, abort.signal]),
    });
    const tag = response.headers.get('etag');
    if (response.status === 404 || (response.ok && tag !== null && tag !== `"${file.sha256}"`)) {
      throw new RelayUnreachableError(`${url}: the relay serves another model by now`);
    }
    if (response.status !== 206 || !response.body) throw new Error(`status ${response.status}`);
    const reader = response.body.getReader();
    let left = to - from;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      clearTimeout(stalled);
      left -= part.value.byteLength;
      if (left < 0) throw new Error('more bytes came than were asked for');
      yield part.value;
      stalled = setTimeout(stall, STALL_MS);
    }
    if (left > 0) throw new Error(`${left} bytes did not come`);
  } finally {
    clearTimeout(stalled);
    abort.abort();
  }
}
