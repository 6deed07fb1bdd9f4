import { type Manifest, SHA256 } from '../../checkpoint/manifest.ts';

/** What the store keeps of a model beside its files. */
export interface ModelRecord {
  readonly name: string;
  /** The model digest. */
  readonly digest: string;
  readonly pieceBytes: number;
  readonly files: readonly { readonly name: string; readonly size: number; readonly sha256: string }[];
  /** When it was opened last, in milliseconds since 1970. */
  readonly usedAt: number;
}

const RECORD = /^([0-9a-f]{64})\.model$/;

export function recordOf({ name, pieceBytes, files }: Manifest, digest: string, usedAt: number): ModelRecord {
  return { name, digest, pieceBytes, usedAt, files: files.map(({ name, size, sha256 }) => ({ name, size, sha256 })) };
}

export function recordName(digest: string): string {
  return `${digest}.model`;
}

/** The digest that a record's file is named after; undefined for other files. */
export function recordDigest(fileName: string): string | undefined {
  return RECORD.exec(fileName)?.[1];
}

/** Files with the same content are kept once, whichever models have them. */
export function dataName({ sha256 }: { readonly sha256: string }, pieceBytes: number): string {
  return `${sha256}.${pieceBytes}.data`;
}

export function mapName({ sha256 }: { readonly sha256: string }, pieceBytes: number): string {
  return `${sha256}.${pieceBytes}.map`;
}

/** Reads a record; undefined for what is none. */
export function parseRecord(text: string | undefined, digest: string): ModelRecord | undefined {
  try {
    const { name, pieceBytes, usedAt, files, ...rest } = JSON.parse(text ?? '') as ModelRecord;
    const valid =
      rest.digest === digest &&
      typeof name === 'string' &&
      Number.isSafeInteger(pieceBytes) &&
      Number.isFinite(usedAt) &&
      files.every(
        (file) => typeof file.name === 'string' && Number.isSafeInteger(file.size) && SHA256.test(file.sha256),
      );
    return valid ? { name, digest, pieceBytes, usedAt, files } : undefined;
  } catch {
    return undefined;
  }
}
