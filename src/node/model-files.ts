import { ConnectError } from '@connectrpc/connect';
import { CheckedSource } from '../checkpoint/checked-source.ts';
import { type Manifest, parseManifest, sha256Hex, totalBytesOf } from '../checkpoint/manifest.ts';
import { type ModelAbout, parseAbout } from '../checkpoint/model-about.ts';
import type { ModelFiles } from '../engine/read-model.ts';
import { ModelOrigins, type OriginsListener, STALL_MS } from './model-origins.ts';
import type { Ask } from './relay-access.ts';
import { RelayUnreachableError } from './relay-unreachable-error.ts';

/** The model that a relay serves. */
export interface ServedManifest {
  readonly manifest: Manifest;
  /** SHA-256 of the manifest's text, hex. */
  readonly digest: string;
}

/** What is told while files come. */
export interface ModelFilesListener extends OriginsListener {
  /** Bytes that have come for the first time, of all that the model's files have; not all need be read. */
  onProgress(loadedBytes: number, totalBytes: number): void;
}

/**
 * Reads the manifest of the model that a relay serves. Rejects with RelayUnreachableError or CheckpointError, and with
 * ConnectError where the relay asks for a token.
 */
export async function fetchManifest(relayUrl: string, signal: AbortSignal, ask: Ask = fetch): Promise<ServedManifest> {
  const url = `${relayUrl}/model/manifest.json`;
  const bytes = await fetchJson(url, signal, ask);
  return { manifest: parseManifest(new TextDecoder().decode(bytes), url), digest: await sha256Hex(bytes) };
}

/** Reads what a relay tells of its model beside the manifest. Rejects as fetchManifest does. */
export async function fetchAbout(relayUrl: string, signal: AbortSignal, ask: Ask = fetch): Promise<ModelAbout> {
  const url = `${relayUrl}/model/about.json`;
  return parseAbout(new TextDecoder().decode(await fetchJson(url, signal, ask)), url);
}

async function fetchJson(url: string, signal: AbortSignal, ask: Ask): Promise<Uint8Array> {
  try {
    // The relay has browsers ask each time whether it still is the same.
    const response = await ask(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(STALL_MS)]) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    signal.throwIfAborted();
    // It was reached, and lets nobody in without a token.
    if (error instanceof ConnectError) throw error;
    throw new RelayUnreachableError(`${url}: ${(error as Error).message}`);
  }
}

/**
 * The manifest's files at the relay, read in ranges as they are asked for, each piece checked, and kept nowhere: a loader
 * takes tensors in its own order, and no file is ever held whole. A connection that is cut goes on where it was. Reads reject with
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
  const totalBytes = totalBytesOf(manifest.files);
  let loadedBytes = 0;
  const onPiece = (bytes: number) => {
    loadedBytes += bytes;
    listener.onProgress(loadedBytes, totalBytes);
  };
  const origins = new ModelOrigins(relayUrl, [], signal, listener, ask);
  const sources = new Map(
    manifest.files.map((file) => {
      const fetchRange = (offset: number, length: number) => origins.ranges(file, offset, offset + length);
      return [file.name, new CheckedSource(file, manifest.pieceBytes, origins.nameOf(file), fetchRange, onPiece)];
    }),
  );
  return { names: [...sources.keys()], open: (name) => sources.get(name) };
}
