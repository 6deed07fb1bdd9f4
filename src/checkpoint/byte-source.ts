/** A file that can be read in ranges: over HTTP, from OPFS, from disk or from memory. */
export interface ByteSource {
  /** What errors call the file. */
  readonly name: string;
  /** In bytes. */
  readonly size: number;
  /** Exactly `length` bytes from `offset`; rejects when they are not to be had. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** A source over bytes already in memory. Reads are views, not copies. */
export function bytesSource(name: string, bytes: Uint8Array): ByteSource {
  return {
    name,
    size: bytes.byteLength,
    async read(offset, length) {
      if (offset < 0 || length < 0 || offset + length > bytes.byteLength) {
        throw new RangeError(`${name}: bytes ${offset}…${offset + length} are outside its ${bytes.byteLength}`);
      }
      return bytes.subarray(offset, offset + length);
    },
  };
}
