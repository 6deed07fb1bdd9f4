import { type ByteFile, type ByteFolder, StoreError, StoreFullError } from './byte-file.ts';
import { ANSWER_MS, within } from './within.ts';

const FOLDER = 'models';
/** Whoever opens the page waits for it. */
const OPEN_MS = 10_000;
/** A tab that was closed or reloaded lets go of its files a little later. */
const RELEASE_MS = 3_000;
const RETRY_MS = 50;
/** A small file that another tab writes meanwhile is read anew, so often. */
const MOST_READS = 20;

type OpenHandle = (options?: { readonly mode: 'readwrite-unsafe' }) => Promise<FileSystemSyncAccessHandle>;

/** The folder for models in this origin's private file system. Rejects with StoreError where the browser gives none. */
export async function openOpfsFolder(): Promise<ByteFolder> {
  if (typeof FileSystemSyncAccessHandle === 'undefined' || !navigator.storage?.getDirectory || !navigator.locks) {
    throw new StoreError('this browser keeps no files for pages (OPFS, Web Locks)');
  }
  const open = async () => (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
  try {
    return new OpfsFolder(await within(open(), OPEN_MS));
  } catch (error) {
    throw new StoreError(`this browser keeps no files for this page: ${(error as Error).message}`);
  }
}

class OpfsFolder implements ByteFolder {
  readonly shares = 'mode' in FileSystemSyncAccessHandle.prototype;
  readonly #folder: FileSystemDirectoryHandle;

  constructor(folder: FileSystemDirectoryHandle) {
    this.#folder = folder;
  }

  async open(name: string): Promise<ByteFile> {
    const until = performance.now() + RELEASE_MS;
    for (;;) {
      try {
        return new OpfsFile(await this.#openHandle(name));
      } catch (error) {
        if ((error as Error).name !== 'NoModificationAllowedError' || performance.now() > until) throw failed(error);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  async #openHandle(name: string): Promise<FileSystemSyncAccessHandle> {
    const open = async () => {
      const file = await this.#folder.getFileHandle(name, { create: true });
      // What several tabs write there at once is the same: bytes that are checked when they are read.
      const mode = this.shares ? ({ mode: 'readwrite-unsafe' } as const) : undefined;
      return (file.createSyncAccessHandle as OpenHandle).call(file, mode);
    };
    // One that comes too late is nobody's, and would keep others out.
    return within(open(), ANSWER_MS, (handle) => handle.close());
  }

  list(): Promise<ReadonlyMap<string, number>> {
    return orFail(async () => {
      const sizes = new Map<string, number>();
      for await (const [name, handle] of this.#folder.entries()) {
        if (handle.kind === 'file') sizes.set(name, (await (handle as FileSystemFileHandle).getFile()).size);
      }
      return sizes;
    });
  }

  readBytes(name: string): Promise<Uint8Array | undefined> {
    return orFail(async () => {
      for (let reads = 1; ; reads++) {
        try {
          const file = await (await this.#folder.getFileHandle(name)).getFile();
          return new Uint8Array(await file.arrayBuffer());
        } catch (error) {
          if ((error as Error).name === 'NotFoundError') return undefined;
          // It was written between the two.
          if ((error as Error).name !== 'NotReadableError' || reads === MOST_READS) throw error;
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        }
      }
    });
  }

  async readText(name: string): Promise<string | undefined> {
    const bytes = await this.readBytes(name);
    return bytes && new TextDecoder().decode(bytes);
  }

  writeText(name: string, text: string): Promise<void> {
    return orFail(async () => {
      // Written beside it, and put in its place when it is closed.
      const writable = await (await this.#folder.getFileHandle(name, { create: true })).createWritable();
      await writable.write(text);
      await writable.close();
    });
  }

  async remove(name: string): Promise<boolean> {
    try {
      await within(this.#folder.removeEntry(name), ANSWER_MS);
      return true;
    } catch (error) {
      if ((error as Error).name === 'NotFoundError') return true;
      if ((error as Error).name === 'NoModificationAllowedError') return false;
      throw failed(error);
    }
  }
}

class OpfsFile implements ByteFile {
  readonly #handle: FileSystemSyncAccessHandle;

  constructor(handle: FileSystemSyncAccessHandle) {
    this.#handle = handle;
  }

  size(): number {
    return orThrow(() => this.#handle.getSize());
  }

  read(into: Uint8Array, at: number): number {
    return orThrow(() => this.#handle.read(into as Uint8Array<ArrayBuffer>, { at }));
  }

  write(bytes: Uint8Array, at: number): void {
    const written = orThrow(() => this.#handle.write(bytes as Uint8Array<ArrayBuffer>, { at }));
    if (written !== bytes.byteLength) throw new StoreFullError('there is no more room');
  }

  close(): void {
    this.#handle.close();
  }
}

function failed(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const { name, message } = error as Error;
  if (name === 'QuotaExceededError') return new StoreFullError('there is no more room');
  return new StoreError(`the browser's files for this page fail: ${message || name}`);
}

function orThrow<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw failed(error);
  }
}

async function orFail<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await within(act(), ANSWER_MS);
  } catch (error) {
    throw failed(error);
  }
}
