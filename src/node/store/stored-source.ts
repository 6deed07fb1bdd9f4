import type { ByteSource } from '../../checkpoint/byte-source.ts';
import { sha256Hex } from '../../checkpoint/manifest.ts';
import { StoreError } from './byte-file.ts';
import type { PieceDownload } from './piece-download.ts';
import type { PieceFile } from './piece-file.ts';

/** Pieces that are read and checked at a time: hashes are made on other threads. */
const AT_A_TIME = 4;
/** Checked pieces that are kept: tensors lie side by side, and what one read ends in the next begins in. */
const KEPT_PIECES = 8;
/** Of a piece that is wrong each time it is read. */
const MOST_TRIES = 3;

/**
 * A file of a manifest in the store. Reads wait for what hasn't come yet, and check each piece when it is read: what the disk
 * changed is told by `onBroken`, and fetched again. Where reads go on where the last one ended, the next pieces are read
 * meanwhile. Rejects as PieceDownload does.
 */
export class StoredSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  readonly #file: PieceFile;
  readonly #download: PieceDownload;
  readonly #onBroken: (file: PieceFile, index: number) => void;
  /** The least recently used first. */
  readonly #kept = new Map<number, Promise<Uint8Array>>();
  #end = 0;

  constructor(file: PieceFile, download: PieceDownload, onBroken: (file: PieceFile, index: number) => void) {
    this.name = file.file.name;
    this.size = file.file.size;
    this.#file = file;
    this.#download = download;
    this.#onBroken = onBroken;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    if (offset < 0 || length < 0 || offset + length > this.size) {
      throw new RangeError(`${this.name}: bytes ${offset}…${offset + length} are outside its ${this.size}`);
    }
    const bytes = new Uint8Array(length);
    if (length === 0) return bytes;
    const pieceBytes = this.#file.lengthOf(0);
    const first = Math.floor(offset / pieceBytes);
    const end = Math.ceil((offset + length) / pieceBytes);
    for (let index = first; index < end; index += AT_A_TIME) {
      const count = Math.min(AT_A_TIME, end - index);
      await Promise.all(Array.from({ length: count }, (_, i) => this.#readInto(bytes, offset, index + i)));
    }
    if (first <= this.#end) this.#lookAhead(end);
    this.#end = end;
    return bytes;
  }

  /** The part of a piece that lies in `bytes`, which begin at `offset` of the file. */
  async #readInto(bytes: Uint8Array, offset: number, index: number): Promise<void> {
    const length = this.#file.lengthOf(index);
    const start = index * this.#file.lengthOf(0) - offset;
    const inside = start >= 0 && start + length <= bytes.byteLength;
    if (inside && !this.#kept.has(index)) {
      await this.#fill(index, bytes.subarray(start, start + length));
      return;
    }
    const piece = await this.#keep(index);
    const from = Math.max(-start, 0);
    const to = Math.min(bytes.byteLength - start, length);
    bytes.set(piece.subarray(from, to), start + from);
  }

  #keep(index: number): Promise<Uint8Array> {
    let piece = this.#kept.get(index);
    this.#kept.delete(index);
    piece ??= this.#whole(index);
    this.#kept.set(index, piece);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_PIECES) break;
      this.#kept.delete(oldest);
    }
    return piece;
  }

  async #whole(index: number): Promise<Uint8Array> {
    const piece = new Uint8Array(this.#file.lengthOf(index));
    try {
      await this.#fill(index, piece);
    } catch (error) {
      this.#kept.delete(index);
      throw error;
    }
    return piece;
  }

  #lookAhead(from: number): void {
    for (let index = from; index < Math.min(from + AT_A_TIME, this.#file.pieces); index++) {
      // What hasn't come is nobody's wish yet, and whoever reads it hears of its failure.
      if (this.#file.has(index)) this.#keep(index).catch(() => {});
    }
  }

  async #fill(index: number, into: Uint8Array): Promise<void> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      if (!(await this.#download.want(this.#file, index))) return this.#download.unkept(this.#file, index, into);
      if (this.#file.read(index, into) && (await sha256Hex(into)) === this.#file.file.pieces[index]) return;
      this.#onBroken(this.#file, index);
      this.#file.forget(index);
    }
    throw new StoreError(`this browser's files for this page don't keep what is written to ${this.name}`);
  }
}
