import type { ManifestFile } from '../../checkpoint/manifest.ts';
import type { ByteFile } from './byte-file.ts';
import { HEADER_BYTES, pieceLength, readPieceMap, STORED } from './piece-map.ts';

/**
 * A manifest's file as it comes, in pieces: `data` holds its bytes where they lie in the file, `map` what has come: the
 * begun piece, and a byte for each piece that is whole. The map is written after the data, and is a hint all the same:
 * whoever reads a piece checks its hash, and tells of one that isn't what it should be by `forget`.
 */
export class PieceFile {
  readonly file: ManifestFile;
  readonly #pieceBytes: number;
  readonly #data: ByteFile;
  readonly #map: ByteFile;
  readonly #header = new Uint32Array(HEADER_BYTES / 4);
  #stored: Uint8Array;
  #storedBytes = 0;

  constructor(file: ManifestFile, pieceBytes: number, data: ByteFile, map: ByteFile) {
    this.file = file;
    this.#pieceBytes = pieceBytes;
    this.#data = data;
    this.#map = map;
    this.#stored = new Uint8Array(file.pieces.length);
    this.refresh();
  }

  /** Reads anew what has come: another tab may have fetched it. */
  refresh(): void {
    const size = this.#map.size();
    const map = new Uint8Array(size === HEADER_BYTES + this.pieces ? size : 0);
    this.#map.read(map, 0);
    const sizes = { size: this.file.size, pieceBytes: this.#pieceBytes };
    const { stored, wholeBytes, index, begun } = readPieceMap(map, sizes, this.#data.size());
    this.#stored = stored;
    this.#storedBytes = wholeBytes;
    this.#header.set([index, begun]);
  }

  get pieces(): number {
    return this.file.pieces.length;
  }

  /** Bytes that need not be fetched, of whole pieces and the begun one. */
  get storedBytes(): number {
    return this.#storedBytes + this.#header[1]!;
  }

  get whole(): boolean {
    return this.#storedBytes === this.file.size;
  }

  has(index: number): boolean {
    return this.#stored[index] === STORED;
  }

  lengthOf(index: number): number {
    return pieceLength({ size: this.file.size, pieceBytes: this.#pieceBytes }, index);
  }

  /** The piece of which a part has come. */
  get begun(): { readonly index: number; readonly bytes: number } | undefined {
    const [index, bytes] = this.#header;
    return bytes === 0 ? undefined : { index: index!, bytes: bytes! };
  }

  /** The first piece that hasn't come, at or behind `index`. */
  firstMissing(index = 0): number | undefined {
    const found = this.#stored.indexOf(0, index);
    return found < 0 ? undefined : found;
  }

  /** Reads what has come of a piece, from its begin. False: there are fewer bytes than `into` takes. */
  read(index: number, into: Uint8Array): boolean {
    return this.#data.read(into, this.#startOf(index)) === into.byteLength;
  }

  /** Keeps the next bytes of a piece, from `at` in it; other begun pieces are begun no more. */
  append(index: number, at: number, bytes: Uint8Array): void {
    this.#data.write(bytes, this.#startOf(index) + at);
    const begun = at + bytes.byteLength;
    // Once whole it is told by its own byte.
    if (begun < this.lengthOf(index)) this.#writeHeader(index, begun);
  }

  /** All bytes of a piece are there, and checked. */
  finish(index: number): void {
    if (this.#map.size() !== HEADER_BYTES + this.pieces) this.#map.write(this.#stored, HEADER_BYTES);
    this.#map.write(new Uint8Array([STORED]), HEADER_BYTES + index);
    if (!this.has(index)) this.#storedBytes += this.lengthOf(index);
    this.#stored[index] = STORED;
    if (this.#header[0] === index && this.#header[1] !== 0) this.#writeHeader(0, 0);
  }

  /** A piece, or the begin of one, isn't what it should be: it is to be fetched whole. */
  forget(index: number): void {
    if (this.has(index)) {
      this.#stored[index] = 0;
      this.#storedBytes -= this.lengthOf(index);
      this.#map.write(new Uint8Array(1), HEADER_BYTES + index);
    }
    if (this.#header[0] === index && this.#header[1] !== 0) this.#writeHeader(0, 0);
  }

  close(): void {
    this.#data.close();
    this.#map.close();
  }

  #startOf(index: number): number {
    return index * this.#pieceBytes;
  }

  #writeHeader(index: number, begun: number): void {
    this.#header[0] = index;
    this.#header[1] = begun;
    if (this.#map.size() !== HEADER_BYTES + this.pieces) this.#map.write(this.#stored, HEADER_BYTES);
    this.#map.write(new Uint8Array(this.#header.buffer), 0);
  }
}
