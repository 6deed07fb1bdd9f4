import { createHash, type Hash } from 'node:crypto';
import { constants, type FileHandle, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Hub, HubUnreachableError, unreachable } from './hub.ts';
import type { HubFile } from './hub-tree.ts';
import { ModelError } from './model-error.ts';

const READ_BYTES = 1 << 20;

export interface DownloadOptions {
  /** Told the bytes of the file that are on this disk. */
  readonly onBytes?: (count: number) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Fetches a file of the hub's to `target`, which is there only once it is whole and its hash is right. What came before
 * a cut is kept beside it, and fetching goes on there, at another start too. Rejects with ModelError.
 *
 * Not with npm's `@huggingface/hub` (2.17.5): its downloadFileToCacheDir begins a file anew after each cut, and checks
 * no hash.
 */
export async function downloadFile(
  hub: Hub,
  url: URL,
  file: HubFile,
  target: string,
  { onBytes = () => {}, signal }: DownloadOptions = {},
): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const partial = `${target}.partial`;
  // Written at positions, not appended: a second relay that fetches the same file does no harm.
  const handle = await open(partial, constants.O_RDWR | constants.O_CREAT, 0o644);
  try {
    const part = new PartialFile(handle, `${partial}.etag`, file);
    await part.recall();
    onBytes(part.length);
    let resumed = part.length > 0;
    for (;;) {
      await fetchRest(hub, url, part, onBytes, signal);
      if (part.right()) break;
      await part.restart();
      // What was kept may have been of another file; a file that came whole can't be.
      if (!resumed) throw new ModelError(`${file.path} came from ${url.host} with another hash than it tells`);
      resumed = false;
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(partial, target);
  await rm(`${partial}.etag`, { force: true });
}

/** What has come of a file, and its hash so far. */
class PartialFile {
  readonly file: HubFile;
  length = 0;
  /** Of the answer that it came with. */
  etag: string | undefined;
  readonly #handle: FileHandle;
  readonly #etagPath: string;
  #hash: Hash;

  constructor(handle: FileHandle, etagPath: string, file: HubFile) {
    this.file = file;
    this.#handle = handle;
    this.#etagPath = etagPath;
    this.#hash = newHash(file);
  }

  /** Takes up what is on the disk. */
  async recall(): Promise<void> {
    const { size } = await this.#handle.stat();
    if (size > this.file.size) return this.restart();
    const buffer = Buffer.alloc(Math.min(READ_BYTES, size));
    while (this.length < size) {
      const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, this.length);
      if (bytesRead === 0) break;
      this.#hash.update(buffer.subarray(0, bytesRead));
      this.length += bytesRead;
    }
    this.etag = (await readFile(this.#etagPath, 'utf8').catch(() => '')) || undefined;
  }

  async restart(etag?: string): Promise<void> {
    if ((await this.#handle.stat()).size > 0) await this.#handle.truncate(0);
    this.length = 0;
    this.#hash = newHash(this.file);
    this.etag = etag;
    if (etag === undefined) await rm(this.#etagPath, { force: true });
    else await writeFile(this.#etagPath, etag);
  }

  async append(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      at += (await this.#handle.write(bytes, at, bytes.length - at, this.length + at)).bytesWritten;
    }
    this.#hash.update(bytes);
    this.length += bytes.length;
  }

  right(): boolean {
    return this.#hash.copy().digest('hex') === this.file.hash.hex;
  }
}

function newHash({ hash, size }: HubFile): Hash {
  // https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
  return hash.kind === 'git' ? createHash('sha1').update(`blob ${size}\0`) : createHash('sha256');
}

/** Fetches until the file is whole; gives up after some failures in a row without a byte between. */
async function fetchRest(
  hub: Hub,
  url: URL,
  part: PartialFile,
  onBytes: (count: number) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  while (part.length < part.file.size) {
    const before = part.length;
    await hub.retrying(async () => {
      try {
        await fetchOnce(hub, url, part, onBytes, signal);
      } catch (error) {
        // Bytes came: the failures before them count no more.
        if (!(error instanceof HubUnreachableError && part.length > before)) throw error;
      }
    }, signal);
  }
}

async function fetchOnce(
  hub: Hub,
  url: URL,
  part: PartialFile,
  onBytes: (count: number) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { file } = part;
  // A weak ETag says nothing of single bytes; the file's hash has the last word in any case.
  const strong = part.etag?.startsWith('"') ? { 'if-range': part.etag } : {};
  const headers = part.length > 0 ? { range: `bytes=${part.length}-`, ...strong } : {};
  const { response, beat, done } = await hub.get(url, file.path, headers, signal);
  try {
    if (response.status === 206) {
      const from = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
      if (Number(from) !== part.length)
        throw new ModelError(`${file.path}: ${url.host} sends another part than asked for`);
    } else {
      // The whole of it: at first, or since it is another file than that which was begun, or since ranges aren't known.
      await part.restart(response.headers.get('etag') ?? undefined);
      if (response.status === 416) return;
    }
    for await (const bytes of stretches(response, url)) {
      beat();
      if (part.length + bytes.length > file.size) {
        await part.restart();
        throw new ModelError(`${file.path}: ${url.host} sends more than the ${file.size} bytes that it tells`);
      }
      await part.append(bytes);
      onBytes(part.length);
    }
    if (part.length < file.size) throw new HubUnreachableError(`${file.path}: ${url.host} broke off`);
  } finally {
    done();
    await response.body?.cancel().catch(() => {});
  }
}

/** Failures of the connection, and no others, are the hub's. */
async function* stretches(response: Response, url: URL): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  try {
    for (;;) {
      const part = await reader?.read().catch((error: unknown) => {
        throw unreachable(url, error);
      });
      if (!part || part.done) return;
      yield part.value;
    }
  } finally {
    reader?.releaseLock();
  }
}
