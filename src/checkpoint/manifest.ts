import { CheckpointError } from './checkpoint.ts';

export interface ManifestFile {
  /** Path inside the model's folder, with forward slashes. */
  readonly name: string;
  /** In bytes. */
  readonly size: number;
  /** Hex. */
  readonly sha256: string;
}

/** All that a node must hold to serve a model the way its relay does. */
export interface Manifest {
  /** The served model's name. */
  readonly name: string;
  readonly files: readonly ManifestFile[];
  /** What is done to the weights on load. */
  readonly quantisation: 'none';
}

/** The one text of a manifest: keys sorted, no spaces, files by name. Its SHA-256 is the model digest. */
export function canonicalJson(manifest: Manifest): string {
  const files = [...manifest.files].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  return JSON.stringify({
    files: files.map(({ name, sha256, size }) => ({ name, sha256, size })),
    name: manifest.name,
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
  const { name, files, quantisation } = (value ?? {}) as Record<string, unknown>;
  if (typeof name !== 'string' || name === '') return fail('name is missing');
  if (quantisation !== 'none') return fail(`unknown quantisation ${JSON.stringify(quantisation)}`);
  if (!Array.isArray(files) || files.length === 0) return fail('files is not a list');
  return { name, quantisation, files: files.map((file) => parseFile(file, fail)) };
}

function parseFile(value: unknown, fail: (reason: string) => never): ManifestFile {
  const { name, size, sha256 } = (value ?? {}) as Record<string, unknown>;
  if (typeof name !== 'string' || !/^[\w.-]+(\/[\w.-]+)*$/.test(name) || /(^|\/)\.\.?(\/|$)/.test(name)) {
    return fail(`a file is called ${JSON.stringify(name)}`);
  }
  if (!Number.isSafeInteger(size) || (size as number) < 0) return fail(`${name}: size is ${JSON.stringify(size)}`);
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) return fail(`${name}: sha256 is not 64 hex digits`);
  return { name, size: size as number, sha256 };
}

/** SHA-256 of bytes, hex. */
export async function sha256Hex(bytes: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>);
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
