import { type FileHandle, open } from 'node:fs/promises';
import { basename } from 'node:path';
import type { ByteSource } from '../../checkpoint/byte-source.ts';

/** Runs `use` over a file on disk, read in ranges. */
export async function withDiskSource<T>(path: string, use: (source: ByteSource) => Promise<T>): Promise<T> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    return await use({ name: basename(path), size, read: (offset, length) => readRange(file, path, offset, length) });
  } finally {
    await file.close();
  }
}

async function readRange(file: FileHandle, path: string, offset: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; ) {
    const { bytesRead } = await file.read(bytes, at, length - at, offset + at);
    if (bytesRead === 0) throw new RangeError(`${path}: bytes ${offset}…${offset + length} are not all there`);
    at += bytesRead;
  }
  return bytes;
}
