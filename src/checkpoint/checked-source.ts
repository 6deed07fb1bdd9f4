import type { ByteSource } from './byte-source.ts';
import { CheckpointError } from './checkpoint.ts';
import { type ManifestFile, sha256Hex } from './manifest.ts';

/** `length` bytes from `offset`, in order, in stretches of any length. */
export type FetchRange = (offset: number, length: number) => AsyncIterable<Uint8Array>;

/** Checked pieces that are kept: tensors lie side by side, and what one read ends in the next begins in. */
const KEPT_PIECES = 8;
/** Fetched at least, as far as the file goes, so that small tensors share a request. */
const LEAST_PIECES = 4;

/**
 * A file of a manifest over ranges that are not trusted: each piece is checked before a byte of it is given. So a
 * loader may read tensors in its own order, and a broken byte is found where it is. Where reads go on where the last
 * ones ended, the next pieces are fetched meanwhile. Holds the kept pieces, two that are on their way, and the bytes
 * asked for. `onPiece` is told the bytes of each piece when it first comes. Reads reject with CheckpointError naming
 * `url` and bytes, or with what `fetchRange` throws.
 */
export class CheckedSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  readonly #url: string;
  readonly #pieceBytes: number;
  readonly #hashes: readonly string[];
  readonly #fetchRange: FetchRange;
  readonly #onPiece: (bytes: number) => void;
  /** The least recently used first. */
  readonly #kept = new Map<number, Uint8Array>();
  readonly #seen = new Set<number>();
  /** Where fetching ended last. */
  #end = 0;
  /** Pieces that come though nobody has asked for them yet. */
  #ahead: { readonly from: number; readonly to: number; readonly done: Promise<void> } | undefined;
  #isComing = false;

  constructor(
    file: ManifestFile,
    pieceBytes: number,
    url: string,
    fetchRange: FetchRange,
    onPiece: (bytes: number) => void = () => {},
  ) {
    this.name = file.name;
    this.size = file.size;
    this.#url = url;
    this.#pieceBytes = pieceBytes;
    this.#hashes = file.pieces;
    this.#fetchRange = fetchRange;
    this.#onPiece = onPiece;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    if (offset < 0 || length < 0 || offset + length > this.size) {
      throw new RangeError(`${this.name}: bytes ${offset}…${offset + length} are outside its ${this.size}`);
    }
    const bytes = new Uint8Array(length);
    if (length === 0) return bytes;
    const end = Math.ceil((offset + length) / this.#pieceBytes);
    let next = Math.floor(offset / this.#pieceBytes);
    const take = (piece: Uint8Array) => {
      const start = next * this.#pieceBytes;
      next++;
      const from = Math.max(offset - start, 0);
      const to = Math.min(offset + length - start, piece.byteLength);
      if (from < to) bytes.set(piece.subarray(from, to), start + from - offset);
    };
    while (next < end) {
      const kept = this.#kept.get(next);
      if (kept) {
        this.#keep(next, kept);
        take(kept);
        continue;
      }
      if (await this.#cameAhead(next)) continue;
      let to = next + 1;
      while (to < end && !this.#kept.has(to)) to++;
      to = Math.min(Math.max(to, next + LEAST_PIECES), this.#hashes.length);
      const goesOn = next === this.#end;
      this.#end = to;
      for await (const piece of this.#fetch(next, to)) take(piece);
      if (goesOn) this.#lookAhead(to);
    }
    return bytes;
  }

  /** Waits for a piece that is on its way. False where it isn't, or didn't come: whoever fetches it hears why. */
  async #cameAhead(index: number): Promise<boolean> {
    const ahead = this.#ahead;
    if (!ahead || index < ahead.from || index >= ahead.to) return false;
    this.#ahead = undefined;
    await ahead.done.catch(() => {});
    if (!this.#kept.has(index)) return false;
    this.#lookAhead(ahead.to);
    return true;
  }

  #lookAhead(from: number): void {
    const to = Math.min(from + LEAST_PIECES, this.#hashes.length);
    if (this.#isComing || from >= to) return;
    this.#end = to;
    const come = async () => {
      try {
        for await (const _ of this.#fetch(from, to));
      } finally {
        this.#isComing = false;
      }
    };
    this.#isComing = true;
    this.#ahead = { from, to, done: come() };
    this.#ahead.done.catch(() => {});
  }

  /** Pieces `first` to `end`, checked. */
  async *#fetch(first: number, end: number): AsyncGenerator<Uint8Array> {
    const from = first * this.#pieceBytes;
    let index = first;
    let piece = new Uint8Array(this.#lengthOf(index));
    let filled = 0;
    for await (let stretch of this.#fetchRange(from, Math.min(end * this.#pieceBytes, this.size) - from)) {
      while (stretch.byteLength > 0) {
        if (index === end) throw new CheckpointError(`${this.#url}: more bytes came than were asked for`);
        const count = Math.min(stretch.byteLength, piece.byteLength - filled);
        piece.set(stretch.subarray(0, count), filled);
        filled += count;
        stretch = stretch.subarray(count);
        if (filled < piece.byteLength) continue;
        await this.#check(index, piece);
        this.#keep(index, piece);
        yield piece;
        index++;
        filled = 0;
        piece = new Uint8Array(index < end ? this.#lengthOf(index) : 0);
      }
    }
    if (index < end) throw new CheckpointError(`${this.#url}: fewer bytes came than were asked for`);
  }

  #lengthOf(index: number): number {
    return Math.min(this.#pieceBytes, this.size - index * this.#pieceBytes);
  }

  async #check(index: number, piece: Uint8Array): Promise<void> {
    if ((await sha256Hex(piece)) !== this.#hashes[index]) {
      const from = index * this.#pieceBytes;
      throw new CheckpointError(
        `${this.#url}: the SHA-256 of bytes ${from} to ${from + piece.byteLength} is not the manifest's`,
      );
    }
    if (this.#seen.has(index)) return;
    this.#seen.add(index);
    this.#onPiece(piece.byteLength);
  }

  #keep(index: number, piece: Uint8Array): void {
    this.#kept.delete(index);
    this.#kept.set(index, piece);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_PIECES) return;
      this.#kept.delete(oldest);
    }
  }
}
