import { createHash } from 'node:crypto';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PIECE_BYTES } from '../../checkpoint/manifest.ts';
import { checkFile } from './check-file.ts';
import { ModelError } from './model-error.ts';
import { replaceFile } from './replace-file.ts';

/** Size and hashes of a file, as a manifest has them. */
export interface FileHashes {
  readonly size: number;
  readonly sha256: string;
  /** Of each PIECE_BYTES. */
  readonly pieces: readonly string[];
}

/** Files from this size on are hashed once; the others as quickly as their hashes would be read. */
const REMEMBERED_BYTES = 16 << 20;

/**
 * Hashes a file, PIECE_BYTES of it in memory at a time. `cache` is a folder in which hashes of large files are
 * remembered, as long as size and time of change stay. `onProgress` is told how many bytes are done, of how many.
 */
export async function hashFile(
  path: string,
  cache?: string,
  onProgress: (doneBytes: number, totalBytes: number) => void = () => {},
): Promise<FileHashes> {
  await checkFile(path);
  const file = await open(path);
  try {
    const stats = await file.stat({ bigint: true });
    const size = Number(stats.size);
    const key = { path, size, mtimeNs: String(stats.mtimeNs), inode: String(stats.ino), pieceBytes: PIECE_BYTES };
    const entry =
      cache === undefined || size < REMEMBERED_BYTES
        ? undefined
        : join(cache, `${createHash('sha256').update(path).digest('hex')}.json`);
    const remembered = entry && (await recall(entry, key));
    if (remembered) return remembered;

    const whole = createHash('sha256');
    const pieces: string[] = [];
    const buffer = Buffer.alloc(Math.min(PIECE_BYTES, size));
    for (let done = 0; done < size; ) {
      const wanted = Math.min(PIECE_BYTES, size - done);
      let filled = 0;
      while (filled < wanted) {
        const { bytesRead } = await file.read(buffer, filled, wanted - filled, done + filled);
        if (bytesRead === 0) throw new ModelError(`${path} was cut off while it was read`);
        filled += bytesRead;
      }
      const piece = buffer.subarray(0, wanted);
      whole.update(piece);
      pieces.push(createHash('sha256').update(piece).digest('hex'));
      done += wanted;
      onProgress(done, size);
    }
    const hashes = { size, sha256: whole.digest('hex'), pieces };
    if ((await file.stat({ bigint: true })).mtimeNs !== stats.mtimeNs) {
      throw new ModelError(`${path} was changed while it was read`);
    }
    if (entry) await replaceFile(entry, JSON.stringify({ key, hashes }));
    return hashes;
  } finally {
    await file.close();
  }
}

/** What was remembered of just this file; undefined where there is nothing, or not this. */
async function recall(entry: string, key: object): Promise<FileHashes | undefined> {
  let value: { key?: object; hashes?: FileHashes };
  try {
    value = JSON.parse(await readFile(entry, 'utf8'));
  } catch {
    return undefined;
  }
  return JSON.stringify(value.key) === JSON.stringify(key) ? value.hashes : undefined;
}
