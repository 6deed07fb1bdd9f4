import { CheckpointError } from './checkpoint.ts';

export interface ManifestFile {
  /** Path inside the model's folder, with forward slashes. */
  readonly name: string;
  /** In bytes. */
  readonly size: number;
  /** Hex. */
  readonly sha256: string;
  /** SHA-256 of each stretch of `pieceBytes`, hex; the last may be shorter. So any part can be checked as it comes. */
  readonly pieces: readonly string[];
}

/** How matrices of floats are quantised while they load. */
export const QUANTISATIONS = ['none', 'q8', 'q4'] as const;

export type ManifestQuantisation = (typeof QUANTISATIONS)[number];

/** All that a node must hold to serve a model the way its relay does. */
export interface Manifest {
  /** The served model's name. */
  readonly name: string;
  readonly files: readonly ManifestFile[];
  readonly pieceBytes: number;
  /** What is done to the weights on load. */
  readonly quantisation: ManifestQuantisation;
}

/** What a relay cuts files into: small beside a tensor, large beside what a request costs. */
export const PIECE_BYTES = 1 << 20;

/** What a node takes; it holds some pieces at a time. */
const MAX_PIECE_BYTES = 16 << 20;

export function totalBytesOf(files: readonly Pick<ManifestFile, 'size'>[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

/** The one text of a manifest: keys sorted, no spaces, files by name. Its SHA-256 is the model digest. */
export function canonicalJson(manifest: Manifest): string {
  const files = [...manifest.files].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  return JSON.stringify({
    files: files.map(({ name, pieces, sha256, size }) => ({ name, pieces, sha256, size })),
    name: manifest.name,
    pieceBytes: manifest.pieceBytes,
    quantisation: manifest.quantisation,
  });
}

/** The model digest: SHA-256 of the canonical JSON, hex. */
export async function digestManifest(manifest: Manifest): Promise<string> {
  return sha256Hex(new TextEncoder().encode(canonicalJson(manifest)));
}

/** Reads a manifest as a relay serves it. Throws CheckpointError saying what is wrong. */
export function parseManifest(text: string, source: string): Manifest {
  const fail = (reason: string): never => {
    throw new CheckpointError(`${source}: ${reason}`);
  };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fail('not JSON');
  }
  const { name, files, pieceBytes, quantisation: given } = (value ?? {}) as Record<string, unknown>;
  if (typeof name !== 'string' || name === '') return fail('name is missing');
  const quantisation =
    QUANTISATIONS.find((one) => one === given) ?? fail(`unknown quantisation ${JSON.stringify(given)}`);
  if (!Number.isSafeInteger(pieceBytes) || (pieceBytes as number) < 1 || (pieceBytes as number) > MAX_PIECE_BYTES) {
    return fail(`pieceBytes is ${JSON.stringify(pieceBytes)}, not a size of at most ${MAX_PIECE_BYTES}`);
  }
  if (!Array.isArray(files) || files.length === 0) return fail('files is not a list');
  return {
    name,
    quantisation,
    pieceBytes: pieceBytes as number,
    files: files.map((file) => parseFile(file, pieceBytes as number, fail)),
  };
}

/** Hex. */
export const SHA256 = /^[0-9a-f]{64}$/;

function parseFile(value: unknown, pieceBytes: number, fail: (reason: string) => never): ManifestFile {
  const { name, size, sha256, pieces } = (value ?? {}) as Record<string, unknown>;
  if (typeof name !== 'string' || !/^[\w.-]+(\/[\w.-]+)*$/.test(name) || /(^|\/)\.\.?(\/|$)/.test(name)) {
    return fail(`a file is called ${JSON.stringify(name)}`);
  }
  if (!Number.isSafeInteger(size) || (size as number) < 0) return fail(`${name}: size is ${JSON.stringify(size)}`);
  if (typeof sha256 !== 'string' || !SHA256.test(sha256)) return fail(`${name}: sha256 is not 64 hex digits`);
  const count = Math.ceil((size as number) / pieceBytes);
  if (!Array.isArray(pieces) || pieces.length !== count || !pieces.every((one) => SHA256.test(String(one)))) {
    return fail(`${name}: pieces are not ${count} times 64 hex digits`);
  }
  return { name, size: size as number, sha256, pieces: pieces as string[] };
}

/** SHA-256 of bytes, hex. */
export async function sha256Hex(bytes: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>);
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
