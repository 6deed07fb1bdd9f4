/** Of the map: which piece is begun (u32), and how many bytes of it there are (u32). */
export const HEADER_BYTES = 8;
export const STORED = 1;

/** What has come of a file, by its map. */
export interface PieceMap {
  /** STORED, for each piece that is whole; else 0. */
  readonly stored: Uint8Array;
  /** Bytes of whole pieces. */
  readonly wholeBytes: number;
  /** The begun piece, and how many bytes of it have come: 0 where none is begun. */
  readonly index: number;
  readonly begun: number;
}

/** The size and pieces of a file of which a map tells, in bytes. */
export interface PieceSizes {
  readonly size: number;
  readonly pieceBytes: number;
}

export function piecesOf({ size, pieceBytes }: PieceSizes): number {
  return Math.ceil(size / pieceBytes);
}

export function pieceLength({ size, pieceBytes }: PieceSizes, index: number): number {
  return Math.min(pieceBytes, size - index * pieceBytes);
}

/**
 * Reads a map: a header, and a byte for each piece. What it tells beyond the data file's `dataBytes` doesn't count, nor does a
 * map of another length, or none.
 */
export function readPieceMap(map: Uint8Array | undefined, sizes: PieceSizes, dataBytes: number): PieceMap {
  const pieces = piecesOf(sizes);
  const stored = new Uint8Array(pieces);
  const none = { stored, wholeBytes: 0, index: 0, begun: 0 };
  if (map?.byteLength !== HEADER_BYTES + pieces) return none;
  let wholeBytes = 0;
  for (let index = 0; index < pieces; index++) {
    const length = pieceLength(sizes, index);
    if (map[HEADER_BYTES + index] !== STORED || index * sizes.pieceBytes + length > dataBytes) continue;
    stored[index] = STORED;
    wholeBytes += length;
  }
  // In the byte order of the machine, as it was written.
  const [index = 0, begun = 0] = new Uint32Array(map.slice(0, HEADER_BYTES).buffer);
  const possible = index < pieces && begun < pieceLength(sizes, index) && index * sizes.pieceBytes + begun <= dataBytes;
  return possible && stored[index] !== STORED ? { stored, wholeBytes, index, begun } : { ...none, wholeBytes };
}
