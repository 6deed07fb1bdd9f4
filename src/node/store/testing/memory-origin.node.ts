import { createHash } from 'node:crypto';
import type { Manifest, ManifestFile } from '../../../checkpoint/manifest.ts';
import type { PieceOrigin } from '../piece-download.ts';

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** A manifest of these files. */
export function manifestOf(name: string, files: Readonly<Record<string, Uint8Array>>, pieceBytes: number): Manifest {
  return {
    name,
    pieceBytes,
    quantisation: 'none',
    files: Object.entries(files).map(([file, bytes]) => ({
      name: file,
      size: bytes.byteLength,
      sha256: sha256(bytes),
      pieces: Array.from({ length: Math.ceil(bytes.byteLength / pieceBytes) }, (_, i) =>
        sha256(bytes.subarray(i * pieceBytes, (i + 1) * pieceBytes)),
      ),
    })),
  };
}

/** A place to download from that counts, breaks off and lies as a test wants it to. */
export class MemoryOrigin implements PieceOrigin {
  readonly files: Readonly<Record<string, Uint8Array>>;
  /** Ranges as they were asked for. */
  readonly asked: string[] = [];
  /** Bytes that were given. */
  given = 0;
  /** Bytes that it can still give before it breaks off. */
  left = Number.POSITIVE_INFINITY;
  stretch = 1_000;
  /** What it does to the bytes that it gives. */
  spoil: (bytes: Uint8Array) => Uint8Array = (bytes) => bytes;
  /** Other places that are tried once it isn't trusted. */
  others = 0;
  distrusted: string[] = [];

  constructor(files: Readonly<Record<string, Uint8Array>>) {
    this.files = files;
  }

  async *ranges(file: ManifestFile, from: number, to: number): AsyncGenerator<Uint8Array> {
    this.asked.push(`${file.name} ${from}-${to}`);
    const bytes = this.files[file.name]!;
    for (let at = from; at < to; ) {
      await Promise.resolve();
      const count = Math.min(this.stretch, to - at, this.left);
      if (count === 0) throw new Error('the connection broke');
      this.left -= count;
      this.given += count;
      yield this.spoil(bytes.slice(at, at + count));
      at += count;
    }
  }

  distrust(why: string): boolean {
    this.distrusted.push(why);
    return this.others-- > 0;
  }

  nameOf({ name }: ManifestFile): string {
    return `memory:${name}`;
  }
}
