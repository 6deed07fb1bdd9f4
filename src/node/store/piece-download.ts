import { CheckpointError } from '../../checkpoint/checkpoint.ts';
import { sha256Hex } from '../../checkpoint/manifest.ts';
import { StoreFullError } from './byte-file.ts';
import type { PieceFile } from './piece-file.ts';

/** Where a download gets its bytes. */
export interface PieceOrigin {
  /** Bytes `from` to `to` of a file, in order, in stretches of any length; made anew until they have come. */
  ranges(file: PieceFile['file'], from: number, to: number): AsyncIterable<Uint8Array>;
  /** What came isn't the manifest's. False: there is no other place to get it from. */
  distrust(why: string): boolean;
  /** What errors call a file. */
  nameOf(file: PieceFile['file']): string;
}

export interface DownloadListener {
  /** More has come. */
  onBytes(): void;
  /** There is no room for more. Whether some was made; from then on what finds none is fetched by whoever reads it. */
  onFull(): Promise<boolean>;
}

/** A piece that someone waits for. */
interface Wanted {
  readonly file: PieceFile;
  readonly index: number;
  resolve(): void;
  reject(error: unknown): void;
}

/** Kept at once, so that the disk isn't asked for each packet; what a reload or a crash may cost. */
const WRITE_BYTES = 256 * 1024;
/** A slow network's bytes are kept after so long, in milliseconds. */
const WRITE_MS = 500;
/** Of one request, so that a piece that someone waits for isn't behind a whole file. */
const SPAN_BYTES = 32 << 20;
const CLOSED = 'the model files are closed';

/**
 * Fetches what hasn't come of some files, over one connection at a time, and keeps it as it comes: first a piece that was
 * begun, then what is waited for, then the rest, file by file. Each piece is checked before it counts.
 */
export class PieceDownload {
  /** Bytes of pieces that were read without being kept. */
  unkeptBytes = 0;
  readonly #files: readonly PieceFile[];
  readonly #origin: PieceOrigin;
  readonly #listener: DownloadListener;
  readonly #writeBytes: number;
  readonly #wanted: Wanted[] = [];
  #running: Promise<void> | undefined;
  /** Pieces that came wrong once. */
  readonly #refused = new Set<string>();
  #incoming: IncomingPiece | undefined;
  #closed = false;
  #full = false;
  /** Pieces that were read without being kept. */
  readonly #unkept = new Set<string>();
  #lastUnkept: Promise<unknown> = Promise.resolve();

  /** `writeBytes` are kept at once. */
  constructor(files: readonly PieceFile[], origin: PieceOrigin, listener: DownloadListener, writeBytes = WRITE_BYTES) {
    this.#files = files;
    this.#origin = origin;
    this.#listener = listener;
    this.#writeBytes = writeBytes;
  }

  /** Fetches all that is missing. Rejects with CheckpointError, StoreError or what the origin throws; resolves at `close`. */
  run(): Promise<void> {
    this.#running ??= this.#run()
      .catch((error: unknown) => {
        for (const { reject } of this.#wanted.splice(0)) reject(error);
        throw error;
      })
      .finally(() => {
        this.#running = undefined;
        // Asked for while it came to its end.
        if (this.#wanted.length > 0) this.run().catch(() => {});
      });
    return this.#running;
  }

  /** Waits until a piece is there. False: there is no room for it. Rejects as `run` does. */
  async want(file: PieceFile, index: number): Promise<boolean> {
    if (file.has(index)) return true;
    if (this.#full) return false;
    if (this.#closed) throw new Error(CLOSED);
    const done = new Promise<void>((resolve, reject) => {
      this.#wanted.push({ file, index, resolve, reject });
    });
    this.run().catch(() => {});
    await done;
    return file.has(index);
  }

  /** Fetches a piece that there is no room for. */
  unkept(file: PieceFile, index: number, into: Uint8Array): Promise<void> {
    // Over one connection at a time.
    const fetched = this.#lastUnkept.then(() => this.#fetchInto(file, index, into));
    this.#lastUnkept = fetched.catch(() => {});
    return fetched;
  }

  /** Stops, and keeps what came; whoever waits is told why. */
  close(): void {
    this.#closed = true;
    this.#keep();
    this.#incoming = undefined;
    for (const { reject } of this.#wanted.splice(0)) reject(new Error(CLOSED));
  }

  async #run(): Promise<void> {
    const keeping = setInterval(() => this.#keep(), WRITE_MS);
    try {
      while (!this.#closed) {
        const span = this.#next();
        if (span === undefined) return;
        try {
          await this.#fetch(span.file, span.first, span.end);
        } catch (error) {
          if (!(error instanceof StoreFullError)) throw error;
          if (await this.#listener.onFull()) continue;
          this.#full = true;
          for (const { resolve } of this.#wanted.splice(0)) resolve();
          return;
        }
      }
    } finally {
      clearInterval(keeping);
    }
  }

  #keep(): void {
    try {
      this.#incoming?.keep();
    } catch {
      // The next write says why; until then it isn't kept.
    }
  }

  #next(): { readonly file: PieceFile; readonly first: number; readonly end: number } | undefined {
    // Another tab may have fetched them.
    for (const { file, index } of this.#wanted.slice()) if (file.has(index)) this.#arrived(file, index);
    const begun = this.#files.find((file) => file.begun !== undefined);
    const [wanted] = this.#wanted;
    const file = begun ?? wanted?.file ?? this.#files.find(({ whole }) => !whole);
    if (file === undefined) return undefined;
    const first = begun?.begun?.index ?? wanted?.index ?? file.firstMissing()!;
    let end = first;
    let bytes = 0;
    while (end < file.pieces && !file.has(end) && bytes < SPAN_BYTES) bytes += file.lengthOf(end++);
    return { file, first, end };
  }

  /** Pieces `first` to `end`, in one request; less where one is found wrong. */
  async #fetch(file: PieceFile, first: number, end: number): Promise<void> {
    const offset = first * file.lengthOf(0);
    let length = 0;
    for (let index = first; index < end; index++) length += file.lengthOf(index);
    const incoming = new IncomingPiece(file, first, this.#writeBytes);
    this.#incoming = incoming;
    try {
      for await (let stretch of this.#origin.ranges(file.file, offset + incoming.filled, offset + length)) {
        if (this.#closed) return;
        while (stretch.byteLength > 0) {
          stretch = stretch.subarray(incoming.take(stretch));
          if (!incoming.whole) continue;
          if (!(await incoming.check())) {
            this.#refuse(file, incoming);
            return;
          }
          this.#arrived(file, incoming.index);
          if (incoming.index + 1 < end) incoming.next();
        }
        this.#listener.onBytes();
      }
      if (!incoming.whole)
        throw new CheckpointError(`${this.#origin.nameOf(file.file)}: fewer bytes came than were asked for`);
    } finally {
      if (!this.#closed) incoming.keep();
      this.#incoming = undefined;
    }
  }

  async #fetchInto(file: PieceFile, index: number, into: Uint8Array): Promise<void> {
    const from = index * file.lengthOf(0);
    for (;;) {
      if (this.#closed) throw new Error(CLOSED);
      let filled = 0;
      for await (const stretch of this.#origin.ranges(file.file, from, from + into.byteLength)) {
        if (filled + stretch.byteLength > into.byteLength)
          throw new CheckpointError(`${this.#origin.nameOf(file.file)}: more bytes came than were asked for`);
        into.set(stretch, filled);
        filled += stretch.byteLength;
      }
      if ((await sha256Hex(into)) === file.file.pieces[index]) break;
      const why = this.#whyNot(file, index);
      if (!this.#origin.distrust(why)) throw new CheckpointError(why);
    }
    const key = `${file.file.name} ${index}`;
    if (this.#unkept.has(key)) return;
    this.#unkept.add(key);
    this.unkeptBytes += into.byteLength;
    this.#listener.onBytes();
  }

  #whyNot(file: PieceFile, index: number): string {
    const from = index * file.lengthOf(0);
    const name = this.#origin.nameOf(file.file);
    return `${name}: the SHA-256 of bytes ${from} to ${from + file.lengthOf(index)} is not the manifest's`;
  }

  #arrived(file: PieceFile, index: number): void {
    for (let i = this.#wanted.length - 1; i >= 0; i--) {
      const wanted = this.#wanted[i]!;
      if (wanted.file !== file || wanted.index !== index) continue;
      this.#wanted.splice(i, 1);
      wanted.resolve();
    }
  }

  #refuse(file: PieceFile, { index, resumed }: IncomingPiece): void {
    file.forget(index);
    const why = this.#whyNot(file, index);
    // What was kept of it before may be what is wrong, or what came from a place that was left meanwhile.
    const key = `${file.file.name} ${index}`;
    if (resumed || this.#origin.distrust(why)) return;
    if (this.#refused.has(key)) throw new CheckpointError(why);
    this.#refused.add(key);
  }
}

/** The piece that is coming: in memory as a whole, on disk as far as was written. */
class IncomingPiece {
  index: number;
  filled = 0;
  /** Whether a part of it came at an earlier time. */
  resumed: boolean;
  readonly #file: PieceFile;
  readonly #writeBytes: number;
  #bytes: Uint8Array;
  #written = 0;

  constructor(file: PieceFile, index: number, writeBytes: number) {
    this.#file = file;
    this.#writeBytes = writeBytes;
    this.index = index;
    this.#bytes = new Uint8Array(file.lengthOf(index));
    const begun = file.begun?.index === index ? file.begun.bytes : 0;
    this.resumed = begun > 0 && file.read(index, this.#bytes.subarray(0, begun));
    if (this.resumed) {
      this.filled = begun;
      this.#written = begun;
    }
  }

  get whole(): boolean {
    return this.filled === this.#bytes.byteLength;
  }

  /** Takes as many bytes as belong to it. */
  take(stretch: Uint8Array): number {
    const count = Math.min(stretch.byteLength, this.#bytes.byteLength - this.filled);
    if (count === 0) throw new CheckpointError(`${this.#file.file.name}: more bytes came than were asked for`);
    this.#bytes.set(stretch.subarray(0, count), this.filled);
    this.filled += count;
    if (this.filled - this.#written >= this.#writeBytes) this.keep();
    return count;
  }

  /** Writes what came. */
  keep(): void {
    if (this.filled === this.#written) return;
    this.#file.append(this.index, this.#written, this.#bytes.subarray(this.#written, this.filled));
    this.#written = this.filled;
  }

  async check(): Promise<boolean> {
    this.keep();
    if ((await sha256Hex(this.#bytes)) !== this.#file.file.pieces[this.index]) return false;
    this.#file.finish(this.index);
    return true;
  }

  next(): void {
    this.index++;
    this.filled = 0;
    this.#written = 0;
    this.resumed = false;
    this.#bytes = new Uint8Array(this.#file.lengthOf(this.index));
  }
}
