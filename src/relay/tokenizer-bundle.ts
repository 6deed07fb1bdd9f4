import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { type AsyncZippable, zip } from 'fflate';
import { type GetTokenizerChunk, GetTokenizerChunkSchema } from '../contract/gen/smg_common_pb.ts';
import { tokenizerFileNames } from './tokenizer-file-names.ts';

const CHUNK_BYTES = 64 * 1024;
/** The first that an archive can tell: the same files make the same archive. */
const MTIME = new Date(1980, 0, 1);

interface Bundle {
  readonly bytes: Uint8Array;
  readonly sha256: string;
}

/** The files of a model's tokenizer, for gateways that have them not: packed once, when first asked for. */
export class TokenizerBundle {
  private readonly folder: string;
  private packed: Promise<Bundle> | undefined;

  constructor(folder: string) {
    this.folder = folder;
  }

  /** The archive in parts; the hash of the whole is on the last alone. Rejects where the folder can't be read. */
  async *chunks(): AsyncGenerator<GetTokenizerChunk> {
    this.packed ??= pack(this.folder).catch((error: unknown) => {
      // The next may fare better.
      this.packed = undefined;
      throw error;
    });
    const { bytes, sha256 } = await this.packed;
    for (let from = 0; from < bytes.byteLength; from += CHUNK_BYTES) {
      const last = from + CHUNK_BYTES >= bytes.byteLength;
      yield create(GetTokenizerChunkSchema, {
        data: bytes.subarray(from, from + CHUNK_BYTES),
        sha256: last ? sha256 : '',
      });
    }
  }
}

async function pack(folder: string): Promise<Bundle> {
  const names = await tokenizerFileNames(folder);
  const files = await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name))] as const));
  const bytes = await archiveOf(Object.fromEntries(files));
  return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/** Large files are packed by threads of their own: the relay goes on meanwhile. */
function archiveOf(files: AsyncZippable): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    zip(files, { mtime: MTIME }, (error, bytes) => (error ? reject(error) : resolve(bytes)));
  });
}
